// The shapes of the five callbacks (2.5 to 2.10); RAP-090: whatever does not fit is refused.

import { isAbsent, isObject } from "../wire/json.mjs";
import { isLoopback } from "../wire/send.mjs";

const isText = (value) => typeof value === "string";
const isFlag = (value) => typeof value === "boolean";

/** E36: standard alphabet, padded, no line breaks, no `data:` prefix. */
const isBase64 = (value) =>
  isText(value) && /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value);
const isMediaType = (value) => isText(value) && /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(\s*;.*)?$/.test(value);
const isImage = (value) => isObject(value) && isBase64(value.data) && isMediaType(value.mediaType);

/** A15: an unknown content item spoils the message. */
const CONTENT = {
  text: (item) => isText(item.text),
  image: isImage,
};

const isItem = (item) =>
  isObject(item) && isText(item.type) && Object.hasOwn(CONTENT, item.type) && CONTENT[item.type](item);

/** A15: an unknown segment is skipped later; a known one must be what it says. */
const SEGMENTS = {
  text: ({ content }) => isText(content),
  diff: ({ content }) => isObject(content) && isText(content.path) && isText(content.patch),
  image: ({ content }) => isImage(content),
};

const isSegment = (segment) =>
  isObject(segment) &&
  isText(segment.type) &&
  (!Object.hasOwn(SEGMENTS, segment.type) || SEGMENTS[segment.type](segment));

const SHAPES = {
  tool_result: resultFault,
  subscription_event: eventFault,
  oauth: oauthFault,
  user_choice: choiceFault,
  view_update: viewFault,
};

/** What is wrong with a callback, or null. */
export function callbackFault(message, { allowLoopbackAuth }) {
  if (!isText(message.type) || !Object.hasOwn(SHAPES, message.type)) return "type is none of the five";
  if (!isText(message.group_id)) return "group_id must be a string";
  return SHAPES[message.type](message, { allowLoopbackAuth });
}

function idFault({ id, call_id }) {
  if (!isText(id)) return "id must be a string";
  return isAbsent(call_id) || isText(call_id) ? null : "call_id must be a string or null";
}

function resultFault(message) {
  const { text, content, display_as, subscription } = message;
  if (!isAbsent(text) && !isText(text)) return "text must be a string";
  if (!isAbsent(content) && !Array.isArray(content)) return "content must be a list";
  if (isAbsent(text) && !content?.length) return "text or content is needed"; // A14, RAP-072
  if (!(content ?? []).every(isItem)) return "content has a malformed item";
  if (!isAbsent(display_as) && !(Array.isArray(display_as) && display_as.every(isSegment)))
    return "display_as has a malformed segment";
  if (!isAbsent(subscription) && !isFlag(subscription)) return "subscription must be a boolean";
  return idFault(message);
}

function eventFault({ tool_call_id, text, associative, final }) {
  if (!isText(tool_call_id)) return "tool_call_id must be a string"; // E13
  if (!isText(text)) return "text must be a string";
  if (associative !== undefined && !isFlag(associative)) return "associative must be a boolean";
  return isAbsent(final) || isFlag(final) ? null : "final must be a boolean";
}

/** RAP-414, E33: a page without TLS is not shown to anybody, but for loopback while developing. */
function oauthFault(message, { allowLoopbackAuth }) {
  const { auth_url } = message;
  if (!isText(auth_url) || !URL.canParse(auth_url)) return "auth_url must be a URL";
  const secure = new URL(auth_url).protocol === "https:" || (allowLoopbackAuth && isLoopback(auth_url));
  return secure ? idFault(message) : "auth_url must be HTTPS";
}

/** A13: nothing is guessed for a missing default. RAP-412: the answer goes only to this machine. */
function choiceFault(message) {
  const { prompt, choices, default: fallback, response_url } = message;
  if (!isText(prompt)) return "prompt must be a string";
  if (!Array.isArray(choices) || choices.length === 0 || !choices.every(isText))
    return "choices must be a non-empty list of strings";
  if (!Number.isInteger(fallback) || fallback < 0 || fallback >= choices.length)
    return "default must be an index into choices";
  return isLoopback(response_url) ? idFault(message) : "response_url must be a loopback address";
}

/** A12. */
function viewFault({ view_type, content }) {
  if (!isText(view_type)) return "view_type must be a string";
  return isObject(content) ? null : "content must be an object";
}
