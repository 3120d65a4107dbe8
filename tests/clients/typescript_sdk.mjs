// Drives the command with the unmodified SDK; prints one JSON object for the case that is named on the command line.
import { Codex } from "@openai/codex-sdk";

const [command, work, image, which, threadId] = process.argv.slice(2);
const codex = new Codex({ codexPathOverride: command, config: { model_verbosity: "low" } });
const options = { workingDirectory: work, skipGitRepoCheck: true, sandboxMode: "workspace-write", approvalPolicy: "never" };

const cases = {
  async run() {
    const thread = codex.startThread(options);
    const turn = await thread.run("Say hello.");
    return { id: thread.id, final: turn.finalResponse, usage: turn.usage, items: turn.items.map((item) => item.type) };
  },
  async runStreamed() {
    const { events } = await codex.startThread(options).runStreamed("Run it.");
    const seen = [];
    for await (const event of events) seen.push(event);
    return { seen };
  },
  async resumeThread() {
    const turn = await codex.resumeThread(threadId, options).run("What did I say?");
    return { final: turn.finalResponse };
  },
  async outputSchema() {
    const schema = { type: "object", properties: { answer: { type: "number" } }, required: ["answer"], additionalProperties: false };
    const turn = await codex.startThread(options).run("Answer.", { outputSchema: schema });
    return { final: JSON.parse(turn.finalResponse), schema };
  },
  async images() {
    const input = [{ type: "text", text: "First." }, { type: "text", text: "Look." }, { type: "local_image", path: image }];
    const turn = await codex.startThread(options).run(input);
    return { final: turn.finalResponse };
  },
  async failure() {
    try {
      await codex.startThread(options).run("Fail.");
    } catch (error) {
      return { message: error.message };
    }
  },
  async earlyFailure() {
    try {
      await codex.startThread({ ...options, workingDirectory: "/no/such/folder" }).run("x".repeat(3_000_000));
    } catch (error) {
      return { message: error.message };
    }
  },
  async abort() {
    const controller = new AbortController();
    const thread = codex.startThread({ ...options, sandboxMode: "danger-full-access" });
    const { events } = await thread.runStreamed("Remember me.", { signal: controller.signal });
    try {
      for await (const event of events) {
        if (event.type === "item.started") setTimeout(() => controller.abort(), 300);
      }
    } catch (error) {
      return { id: thread.id, name: error.name };
    }
  },
};

console.log(JSON.stringify(await cases[which]()));
