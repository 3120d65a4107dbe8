"""The additions to JavaScript for scripts: tools, output, stored values and timers."""

from __future__ import annotations

__all__ = ["FIRST_LINE", "REALM"]

FIRST_LINE = 100_000
"""The line on which the realm begins, to distinguish its stack frames from frames of scripts."""

REALM = r"""
(function () {
  "use strict";
  const host = globalThis.__send;
  for (const name of ["__send", "SharedArrayBuffer", "Atomics", "performance"]) delete globalThis[name];
  const { stringify, parse } = JSON;
  const { apply } = Reflect;
  const { isArray } = Array;
  const { then } = Promise.prototype;
  const { includes, isWellFormed, replaceAll, slice, startsWith, toLowerCase, toWellFormed } = String.prototype;
  const AsString = String;
  const AsPromise = Promise;
  const calls = Object.create(null);
  const timers = Object.create(null);
  const over = { toString: () => "the script has ended" };

  // The engine hands strings over as UTF-8 that ends at the first NUL, and only those that are in one piece.
  const whole = (text) => {
    const piece = apply(slice, text, [0]);
    const sound = apply(isWellFormed, piece, []) ? piece : apply(toWellFormed, piece, []);
    return apply(includes, sound, ["\0"]) ? apply(replaceAll, sound, ["\0", "\ufffd"]) : sound;
  };

  function send(...given) {
    for (let place = 0; place < given.length; place++)
      if (typeof given[place] === "string") given[place] = whole(given[place]);
    const answer = apply(host, undefined, given);
    if (answer === true) throw over;
    return answer;
  }

  let lastCall = 0;
  let lastTimer = 0;

  const begins = (text, start) => apply(startsWith, text, [start]);
  const refused = (text) => new AsPromise((_, reject) => reject(text));

  function shown(value) {
    switch (typeof value) {
      case "string": return value;
      case "number": case "boolean": case "bigint": return AsString(value);
      default: return AsString(stringify(value));
    }
  }

  function called(name, kind, input) {
    let given = input;
    if (kind === "text") {
      if (typeof input !== "string") return refused("tool `" + name + "` expects a string input");
    } else {
      if (input === undefined) given = "{}";
      else if (typeof input === "object" && input !== null && !isArray(input)) given = stringify(input);
      else given = undefined;
      if (given === undefined) return refused("tool `" + name + "` expects a JSON object for arguments");
    }
    return new AsPromise((resolve, reject) => {
      const id = ++lastCall;
      calls[id] = { resolve, reject };
      const refusal = send("call", id, name, given);
      if (typeof refusal === "string") reject(refusal);
    });
  }

  const noImage =
    "image expects a non-empty image URL string, an object with image_url and optional detail, or a raw MCP image block";
  const noAudio = "audio expects a non-empty audio URL string, an object with audio_url, or a raw MCP audio block";

  function urlOf(value, kind, none) {
    let url = value;
    if (typeof value === "object" && value !== null) {
      url = value[kind + "_url"];
      if (value.type === kind && typeof value.data === "string" && value.data !== "")
        url = begins(value.data, "data:")
          ? value.data
          : "data:" + (value.mimeType || "application/octet-stream") + ";base64," + value.data;
    }
    if (typeof url !== "string" || url === "") throw none;
    const start = apply(toLowerCase, url, []);
    if (kind === "image" && (begins(start, "http://") || begins(start, "https://")))
      throw "Tool call failed: remote image URLs are not supported in tool outputs. Pass a base64 data URI instead";
    if (!begins(start, "data:"))
      throw "Tool call failed: invalid " + kind + " output. Pass a base64 data URI instead";
    return url;
  }

  function image(value, detail) {
    const url = urlOf(value, "image", noImage);
    const wanted = detail ?? (typeof value === "object" ? value.detail : undefined) ?? "";
    if (wanted !== "" && wanted !== "auto" && wanted !== "low" && wanted !== "high" && wanted !== "original")
      throw "image detail must be one of: auto, low, high, original";
    send("image", url);
  }

  const helpers = {
    text(value) { send("text", shown(value)); },
    image(value, detail) { image(value, detail); },
    audio(value) { urlOf(value, "audio", noAudio); send("audio"); },
    generatedImage(result) {
      if (typeof result !== "object" || result === null)
        throw "generatedImage expects an image generation result object";
      image(result);
      if (typeof result.output_hint === "string" && result.output_hint !== "") send("text", result.output_hint);
    },
    store(key, value) {
      const name = AsString(key);
      const text = stringify(value);
      if (typeof text !== "string")
        throw "Unable to store " + stringify(name) + ". Only plain serializable objects can be stored.";
      const refusal = send("store", name, text);
      if (typeof refusal === "string") throw "Unable to store " + stringify(name) + ": " + refusal;
    },
    load(key) {
      const text = send("load", AsString(key));
      return typeof text === "string" ? parse(text) : undefined;
    },
    notify(value) {
      const text = shown(value);
      if (!/\S/.test(text)) throw "notify expects non-empty text";
      send("notify", text);
    },
    setTimeout(callback, delay) {
      if (typeof callback !== "function") throw "setTimeout expects a callback function";
      const id = ++lastTimer;
      timers[id] = callback;
      send("timer", id, +delay > 0 ? +delay : 0);
      return id;
    },
    clearTimeout(id) { delete timers[id]; },
    yield_control() { send("yield"); },
    exit() { send("done"); },
  };
  for (const name in helpers)
    Object.defineProperty(globalThis, name, {
      value: helpers[name], writable: true, configurable: true, enumerable: true,
    });
  Object.defineProperty(globalThis, "ALL_TOOLS", {
    configurable: true,
    enumerable: true,
    get() {
      const value = parse(send("all_tools"));
      Object.defineProperty(globalThis, "ALL_TOOLS", { value, writable: true, configurable: true, enumerable: true });
      return value;
    },
  });

  function failed(error) {
    let text = "";
    let frames = "";
    try {
      const stack = typeof error === "object" && error !== null ? error.stack : undefined;
      if (typeof stack === "string" && stack !== "" && !begins(stack, "    at ")) {
        text = stack;
      } else {
        text = typeof error === "symbol" ? "" : AsString(error);
        if (typeof stack === "string") frames = stack;
      }
    } catch {}
    send("failed", text, frames);
  }

  return function enter(what, first, second, third) {
    if (what === "tools") {
      const tools = {};
      for (const each of parse(first)) {
        const name = each[0], kind = each[1];
        tools[name] = (0, (input) => called(name, kind, input));
      }
      globalThis.tools = tools;
    } else if (what === "watch") {
      apply(then, first, [() => send("done"), failed]);
    } else if (what === "settle") {
      const call = calls[first];
      delete calls[first];
      if (call === undefined) return;
      if (second) call.resolve(parse(third));
      else call.reject(third);
    } else if (what === "fire") {
      const callback = timers[first];
      delete timers[first];
      if (callback === undefined) return;
      try { callback(); } catch (error) { failed(error); }
    }
  };
})()
"""
