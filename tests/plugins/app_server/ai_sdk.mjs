// Drives the command named by PROGRAM through npm's ai-sdk-provider-codex-app-server, and prints what it gets.
import { createCodexAppServer } from "ai-sdk-provider-codex-app-server";

const { PROGRAM, WORK } = process.env;
const settings = { codexPath: PROGRAM, cwd: WORK, sandboxMode: "read-only", approvalMode: "never", logger: false };
const model = createCodexAppServer({ defaultSettings: settings })("gpt-5.5");
const prompt = [{ role: "user", content: [{ type: "text", text: "hi" }] }];
const whole = await model.doGenerate({ prompt });
const { stream } = await model.doStream({ prompt });
const kinds = [];
for await (const part of stream) kinds.push(part.type);
console.log(JSON.stringify({ content: whole.content, finish: whole.finishReason.unified, kinds }));
process.exit(0);
