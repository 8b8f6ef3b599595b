// The admin API, as docs/admin-api.md describes it. A change carries the CSRF token of the session.

class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const session = { signedIn: false, needsToken: false, name: "", role: null, csrf: null };

export const mayChange = () => session.role === "full";

let onSignedOut = () => {};
export const whenSignedOut = (listener) => { onSignedOut = listener; };

export async function call(method, path, body) {
  try {
    return await exchange(method, path, body);
  } catch (error) {
    if (error.status !== 401 && error.code !== "bad_csrf") throw error;
    // The session has ended, or another tab has begun a new one; where no token is needed, so do we.
    await resume();
    if (session.signedIn) return await exchange(method, path, body);
    onSignedOut();
    throw error;
  }
}

export const get = (path) => call("GET", path);

async function exchange(method, path, body) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && session.csrf) headers["X-CSRF-Token"] = session.csrf;
  const options = { method, headers, credentials: "same-origin", cache: "no-store", redirect: "error" };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  let answer;
  try {
    response = await fetch(`/api/v1/${path}`, options);
    answer = await response.json();
  } catch {
    throw new ApiError(0, "unreachable", "The node does not answer.");
  }
  if (response.ok) return answer;
  const { code, message } = answer.error ?? { code: "unknown", message: `Status ${response.status}` };
  throw new ApiError(response.status, code, sentence(message));
}

// Texts of the API begin in lower case and have no full stop; those of SQS have both.
function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

// --- sessions ------------------------------------------------------------------------------------

function remember(answer) {
  session.signedIn = answer.signed_in;
  session.needsToken = answer.needs_token;
  session.name = answer.name;
  session.role = answer.role;
  session.csrf = answer.csrf;
}

export async function resume() {
  remember(await exchange("GET", "session"));
  if (!session.signedIn && !session.needsToken) await signIn("");
}

export async function signIn(token) {
  remember(await exchange("POST", "session", { token }));
}

export async function signOut() {
  remember(await exchange("DELETE", "session"));
}

// --- queues --------------------------------------------------------------------------------------

export const queuePath = (queue) => `queues/${queue.account}/${queue.region}/${queue.name}`;

// AWS has partitions of its own for some regions.
export function arnOf({ account, region, name }) {
  const partition = region.startsWith("cn-") ? "aws-cn" : region.startsWith("us-gov-") ? "aws-us-gov" : "aws";
  return `arn:${partition}:sqs:${region}:${account}:${name}`;
}


export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
