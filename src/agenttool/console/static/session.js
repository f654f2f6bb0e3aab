// Who uses the page, and what the page remembers in this browser: theme, shortcuts, drafts.
import { signal, computed } from "./html.js";
import { get, post, loginWanted, Problem, setPageKey } from "./api.js";
import { startLive, stopLive } from "./live.js";

/** The answer of `GET /v1/me`; null until it is known. */
export const me = signal(null);
/** Why `me` could not be loaded or the login failed; null if it could. */
export const meProblem = signal(null);

/** Whether the reader has one of the roles. */
export const has = (...roles) => roles.some((role) => me.value?.roles.includes(role));
/** Whether the reader may read all calls: approver, operator or auditor. */
export const isReader = computed(() => has("approver", "operator", "auditor"));

/** Exchange the token of a login link for a session, if the address has one, and learn who the reader is. */
export async function openSession() {
  const token = new URLSearchParams(location.hash.slice(1)).get("login");
  meProblem.value = null;
  if (token) {
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await logIn({ token });
      return;
    } catch (error) {
      meProblem.value = error;
    }
  }
  try {
    await enter(await get("/v1/me"));
  } catch (error) {
    meProblem.value ??= error;
  }
}

/** Exchange a key for a session. Raises Problem. */
export async function loginWithKey(key) {
  await logIn({ key });
}

async function logIn(credentials) {
  const found = await post("/v1/login", credentials);
  setPageKey(found.page_key);
  await enter(found);
}

export async function logout() {
  await post("/v1/logout").catch(() => {});
  setPageKey(null);
  stopLive();
  location.assign("/");
}

async function enter(found) {
  if (!found || !Array.isArray(found.roles)) throw new Problem(500, { detail: "The server sent no identity; reload the page." });
  me.value = found;
  loginWanted.value = false;
  stopLive();
  if (isReader.value) startLive();
}

const stored = (name, standard) => localStorage.getItem(`agenttool.${name}`) ?? standard;

/** "system", "light" or "dark". */
export const theme = signal(stored("theme", "system"));
/** Whether single keys navigate. */
export const shortcuts = signal(stored("shortcuts", "on") === "on");

export function setTheme(name) {
  theme.value = name;
  localStorage.setItem("agenttool.theme", name);
  showTheme();
}

export function setShortcuts(isOn) {
  shortcuts.value = isOn;
  localStorage.setItem("agenttool.shortcuts", isOn ? "on" : "off");
}

export function showTheme() {
  document.documentElement.dataset.theme = theme.value;
}

/** Read what was typed before a reload; null if nothing. Drafts live in this tab only. */
export function draft(key) {
  try {
    return JSON.parse(sessionStorage.getItem(`agenttool.draft.${key}`));
  } catch {
    return null;
  }
}

/** Store what is typed, so that a reload loses nothing; null deletes it. */
export function setDraft(key, value) {
  const name = `agenttool.draft.${key}`;
  if (value === null) sessionStorage.removeItem(name);
  else try { sessionStorage.setItem(name, JSON.stringify(value)); } catch { /* the tab's storage is full */ }
}
