// All statuses of a call that the API documents, in the order of its phases: their words, colors and phases.
export const STATUSES = {
  planned: { tone: "plain", phase: "receive" },
  selected: { tone: "busy", phase: "find the tool" },
  schema_parse_failed: { tone: "bad", text: "invalid arguments", isEnd: true },
  arguments_ready: { tone: "busy", phase: "check the arguments" },
  validation_failed: { tone: "bad", isEnd: true },
  pre_hooks_running: { tone: "busy", phase: "hooks before" },
  awaiting_approval: { tone: "wait", text: "waiting for approval", phase: "wait for approval", isWait: true },
  approved: { tone: "good" },
  denied: { tone: "bad", isEnd: true },
  queued: { tone: "plain", phase: "wait for its turn", isWait: true },
  running: { tone: "busy", phase: "run the tool" },
  needs_input: { tone: "wait", text: "waiting for input", phase: "wait for input", isWait: true },
  partial_result: { tone: "busy", phase: "part of the result" },
  post_hooks_running: { tone: "busy", phase: "hooks after" },
  yielded: { tone: "busy", phase: "deliver the result" },
  succeeded: { tone: "good", isEnd: true },
  failed: { tone: "bad", isEnd: true },
  canceled: { tone: "plain", isEnd: true },
  timed_out: { tone: "bad", isEnd: true },
  blocked: { tone: "bad", isEnd: true },
};

/** Return a status, or another word of a record, as people read it. */
export function wordsOf(name) {
  return STATUSES[name]?.text ?? String(name).replaceAll("_", " ");
}
