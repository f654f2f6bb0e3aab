// One result, two readers: what the model gets and what people see.

const RENDERS = ["diff", "text"]; // a terminal shows no images

/** RAP-073: `content` before `text`. RAP-077, RAP-078: a model that is blind gets words in place of pictures. */
export function forModel({ text, content }, { images }) {
  if (!content?.length) return [{ type: "text", text }];
  return content.map((item) =>
    item.type === "image" && !images ? { type: "text", text: `[image omitted: ${item.mediaType}]` } : item,
  );
}

/** RAP-080, E35: the first segment that can be shown, else the raw text; RAP-079: never mixed with the model's view. */
export function forPeople({ text, content, display_as }) {
  const segment = (display_as ?? []).find((each) => RENDERS.includes(each?.type));
  if (segment) return segment;
  const words =
    text ??
    content
      .filter((item) => item.type === "text")
      .map((item) => item.text)
      .join("\n");
  return { type: "text", content: words };
}
