// The view library of every module: htm's tag over preact, hooks and signals. Text is escaped by construction.
import htm from "./vendor/htm.js";
import { h, render, createElement, Fragment } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, useId, useCallback, useErrorBoundary } from "./vendor/hooks.js";
import { signal, computed, effect, batch } from "./vendor/signals.js";

export const html = htm.bind(h);
export {
  render, createElement, Fragment,
  useEffect, useLayoutEffect, useMemo, useRef, useState, useId, useCallback, useErrorBoundary,
  signal, computed, effect, batch,
};
