import { isIPv6 } from 'node:net';

/**
 * The forms in which things that must not leave the machine stand in free text. Each pass takes a text and hands every find to
 * `replace`, which gives what stands in its place. They run in the order of `PASSES`: what an earlier one took is not seen by a later one.
 */
export type Kind = 'secret' | 'user' | 'host' | 'ip' | 'email' | 'mac';

/** @param weak the form alone is no proof: it is replaced here, but not looked for elsewhere */
export type Replace = (kind: Kind, value: string, weak?: boolean) => string;

type Pass = (text: string, replace: Replace) => string;

const STAND_IN = /^<(?:secret|user|host|ip|email|mac)-\d+>$/;
const HOLDS_STAND_IN = /<(?:secret|user|host|ip|email|mac)-\d+>/;

/** Names of things whose value is a secret, as `HF_TOKEN`, `api_key`, `accessToken`, `x-api-key`; `tokens`, `tokenizer` and `token_ids` are none. */
const SECRET_NAME =
  '[\\w.-]{0,40}?(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|private[_-]?key|encryption[_-]?key|token|password|passwd|passphrase|passcode|pwd|credentials?|authorization|cookie)';
/** Tokens of the model's vocabulary and counts of them. */
const WORD_TOKEN =
  /(?:^|[._-])(?:eos|bos|pad|unk|sep|cls|mask|stop|special|per|next|first|last|end|start|output|input|image|added|new)[_-]?token$/i;
const NO_SECRET = /^(?:none|null|nil|true|false|undefined|unset|missing|invalid|required|empty|\*+|x{3,}|\.{2,}|\[?redacted\]?|<[^>]*>?)$/i;

/** Whether a key's own name says that its value is a secret. */
export function namesSecret(name: string): boolean {
  return new RegExp(`^-{0,2}${SECRET_NAME}$`, 'i').test(name) && !WORD_TOKEN.test(name);
}

/** Whether a value under such a name is one: a count, a path to stand in, and nothing at all are not. */
export function isSecretValue(name: string, value: string): boolean {
  if (value.trim() === '' || NO_SECRET.test(value.trim()) || STAND_IN.test(value.trim())) return false;
  // The scheme's name stays before what was replaced.
  if (/authorization$/i.test(name) && /^(?:bearer|basic) /i.test(value)) return false;
  if (/token$/i.test(name) && /^\d{1,7}(?:\.\d+)?$/.test(value)) return false;
  return !(/pwd$/i.test(name) && value.startsWith('/'));
}

const privateKeys: Pass = (text, replace) =>
  text.replace(/-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)/g, (found) =>
    replace('secret', found),
  );

/** Hosts that everybody knows, and that say what was tried. */
const PUBLIC_HOST =
  /(?:^|\.)(?:huggingface\.co|hf\.co|github\.com|githubusercontent\.com|pypi\.org|pytorch\.org|nvidia\.com|vllm\.ai|kernel\.org|python\.org)$/i;
const OWN_HOST = /^(?:localhost(?:\.localdomain)?|ip6-localhost|0|none|null|true|false)$/i;
/** Their authority is the name of a bucket, or there is none. */
const NO_HOST_SCHEME = /^(?:s3|gs|hf|az|abfss?|file|data|unix|ipc|sqlite)$/i;

const urls: Pass = (text, replace) =>
  text.replace(
    /(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.-]{1,20}):(\\?\/\\?\/)([^\s"'`]+)/g,
    (whole, scheme: string, slashes: string, rest: string) => {
      const { userinfo, behind } = splitAuthority(rest);
      const host = /^(?:\[[^\]]*\]|[\p{L}\p{N}._-]+)/u.exec(behind)?.[0] ?? '';
      if (userinfo === null && host === '') return whole;
      const before = userinfo === null ? '' : `${redactUserinfo(userinfo, replace)}@`;
      const hidden = NO_HOST_SCHEME.test(scheme) ? host : redactHost(host, replace);
      return `${scheme}:${slashes}${before}${hidden}${behind.slice(host.length)}`;
    },
  );

/** A password may hold a slash, and a text may end before its `@`: a colon without a port behind it is a password all the same. */
function splitAuthority(rest: string): { userinfo: string | null; behind: string } {
  const end = rest.search(/[/?#]/);
  const authority = end < 0 ? rest : rest.slice(0, end);
  const first = authority.lastIndexOf('@');
  if (first >= 0) {
    const at = authority.slice(0, first).includes(':') ? rest.lastIndexOf('@') : first;
    return { userinfo: rest.slice(0, at), behind: rest.slice(at + 1) };
  }
  const noPort = /^[^:@[\]]+:(?!\d{1,5}(?![\p{L}\p{N}_])|[\s,;.)\]}>]|$)/u.test(authority);
  if (!noPort) return { userinfo: null, behind: rest };
  const last = rest.lastIndexOf('@');
  return last < 0 ? { userinfo: rest, behind: '' } : { userinfo: rest.slice(0, last), behind: rest.slice(last + 1) };
}

function redactUserinfo(userinfo: string, replace: Replace): string {
  const colon = userinfo.indexOf(':');
  const one = (kind: Kind, value: string): string => (value === '' || STAND_IN.test(value) ? value : replace(kind, value));
  // A single long word is an access token, as in https://hf_…@huggingface.co.
  if (colon < 0) return one(userinfo.length >= 16 ? 'secret' : 'user', userinfo);
  return `${one('user', userinfo.slice(0, colon))}:${one('secret', userinfo.slice(colon + 1))}`;
}

function redactHost(host: string, replace: Replace): string {
  const bare = host.replace(/^\[|\]$/g, '').replace(/%.*$/, '');
  if (isIPv6(bare)) return isOwnAddress(bare) ? host : `[${replace('ip', bare)}]`;
  if (isIPv4(host)) return isOwnAddress(host) ? host : replace('ip', host);
  return isNamedHost(host) ? replace('host', host) : host;
}

/** Whether a word may be the name of a machine that is not this very one and not known to all. */
export function isNamedHost(word: string): boolean {
  return word !== '' && !OWN_HOST.test(word) && !PUBLIC_HOST.test(word) && !/^[\d.]+$/.test(word) && !HOLDS_STAND_IN.test(word);
}

const TOKENS: readonly RegExp[] = [
  /(?<![\w-])sk-(?=[\w-]{8})(?:[\w-]*\d[\w-]*|[\w-]{16,})/g,
  /(?<!\w)hf_(?:(?=[A-Za-z]*\d)[A-Za-z0-9]{10,}|[A-Za-z0-9]{16,})/g,
  /(?<!\w)(?:gh[opsur]_|github_pat_|glpat-|xox[abprs]-|nvapi-|pypi-|dckr_pat_|npm_)[\w-]{10,}/g,
  /(?<!\w)(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}/g,
  /(?<!\w)AIza[\w-]{30,}/g,
  /(?<!\w)eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?/g,
];

const tokens: Pass = (text, replace) => TOKENS.reduce((left, form) => left.replace(form, (found) => replace('secret', found)), text);

const bearers: Pass = (text, replace) =>
  text.replace(/\b((?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{6,})/gi, (whole, word: string, value: string) =>
    /^(?:authentication|tokens?|auth|header|scheme|access|credentials|authorization|support|metrics|config\w*|info\w*)$/i.test(value)
      ? whole
      : `${word}${replace('secret', value)}`,
  );

const NAMED = new RegExp(`(?<![\\w])(${SECRET_NAME})(["'\\\\]{0,4}\\s{0,4}(?:=>|[=:])\\s{0,4})`, 'gi');
const FLAGGED = new RegExp(`(?<![\\w-])(-{1,2}${SECRET_NAME})(\\s+)(?!-)`, 'gi');
/** Their values are sentences or lists: they go to the end of the line. */
const TO_LINE_END = /(?:password|passwd|passphrase|authorization|cookie)$/i;

const named: Pass = (text, replace) => valuesBehind(valuesBehind(text, NAMED, replace), FLAGGED, replace);

function valuesBehind(text: string, form: RegExp, replace: Replace): string {
  let result = '';
  let from = 0;
  for (const match of text.matchAll(form)) {
    const name = match[1] ?? '';
    const start = match.index + match[0].length;
    if (match.index < from || WORD_TOKEN.test(name)) continue;
    const { value, at } = valueAt(text, start, TO_LINE_END.test(name) && (match[2] ?? '').includes(':'));
    if (!isSecretValue(name, value)) continue;
    result += text.slice(from, at) + replace('secret', value);
    from = at + value.length;
  }
  return result + text.slice(from);
}

/** The value that stands at `start`: inside its quotes, escaped ones too, or up to the next mark. */
function valueAt(text: string, start: number, toLineEnd: boolean): { value: string; at: number } {
  const quote = /^(?:\\*["'`])/.exec(text.slice(start, start + 8))?.[0];
  if (quote !== undefined) {
    const at = start + quote.length;
    const line = text.slice(at).split('\n', 1)[0] ?? '';
    const end = endOfQuoted(line, quote);
    return { value: line.slice(0, end), at };
  }
  const form = toLineEnd ? /^[^\n"'`]*/ : /^[^\s,;&)}\]"'`|]*/;
  return { value: (form.exec(text.slice(start))?.[0] ?? '').trimEnd(), at: start };
}

function endOfQuoted(line: string, quote: string): number {
  for (let end = line.indexOf(quote); end >= 0; end = line.indexOf(quote, end + 1)) {
    // `\"` inside `"…"` is part of the value.
    if (quote.length > 1 || line[end - 1] !== '\\') return end;
  }
  return line.length;
}

const queries: Pass = (text, replace) =>
  text.replace(
    /([?&](?:sig|signature|key|code|X-Amz-(?:Signature|Credential|Security-Token)|X-Goog-(?:Signature|Credential))=)([^&\s"'<>#]+)/gi,
    (_, key: string, value: string) => `${key}${replace('secret', value)}`,
  );

/** `llm@0.service` is a unit, and `left-pad@1.0.ts` is none of our business either. */
const NO_MAIL = /\.(?:service|socket|timer|mount|automount|target|slice|scope|path|device|swap|js|mjs|ts|py|so|log|json)$/i;

const emails: Pass = (text, replace) =>
  text
    .replace(/(?<![\w.+%-])[\w.+%-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,24}(?![\w-])/gu, (found) =>
      NO_MAIL.test(found) ? found : replace('email', found),
    )
    .replace(
      /(?<![\w.@/-])([A-Za-z_][\w.-]{0,31})@([A-Za-z0-9][\w.-]{0,62})(?=:(?:[/~]|\d))/g,
      (_, user: string, host: string) => `${replace('user', user)}@${redactHost(host, replace)}`,
    );

const macs: Pass = (text, replace) =>
  text
    .replace(/(?<![\w:.-])[0-9a-f]{2}(?::[0-9a-f]{2}){5,19}(?![\w:])/gi, (found) => replace('mac', found))
    // Six pairs of digits with dashes are a date and a time.
    .replace(/(?<![\w:.-])(?=[0-9-]*[a-f])[0-9a-f]{2}(?:-[0-9a-f]{2}){5}(?![\w-])/gi, (found) => replace('mac', found));

const ADDRESS_6 = /(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4})(%[\w.-]+)?(?![\w:])/gi;
const ADDRESS_4 = /(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)/g;
/** Four numbers behind one of these are a version. */
const VERSION_BEFORE =
  /(?:\bv(?:er(?:sion)?)?\.?|version|release|build|driver|firmware|cuda|cudnn|cublas|nccl|cu\d+|[=<>~!]=)["']?[\s:=]{0,2}["']?$/i;

const addresses: Pass = (text, replace) =>
  text
    .replace(ADDRESS_6, (found, zone: string | undefined) => {
      const bare = zone === undefined ? found : found.slice(0, -zone.length);
      return isIPv6(bare) && !isOwnAddress(bare) ? `${replace('ip', bare)}${zone ?? ''}` : found;
    })
    .replace(ADDRESS_4, (found, at: number, whole: string) => {
      const isVersion = VERSION_BEFORE.test(whole.slice(Math.max(0, at - 24), at));
      return isIPv4(found) && !isOwnAddress(found) && !isVersion ? replace('ip', found) : found;
    });

function isIPv4(text: string): boolean {
  return /^(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})$/.test(text) && text.split('.').every((part) => Number(part) <= 255);
}

/** Loopback and "any" say that it is this machine, and no more. */
function isOwnAddress(address: string): boolean {
  return /^127\.|^0\.0\.0\.0$|^255\.255\./.test(address) || address === '::1' || address === '::';
}

const homes: Pass = (text, replace) =>
  text
    .replace(
      /((?:\/(?:home|Users)\/)|(?:\\{1,2}Users\\{1,2}))([^/\\\s"'`:;,()[\]{}<>|]+)/g,
      (_, folder: string, name: string) => `${folder}${replace('user', name)}`,
    )
    .replace(/(?<![\w/~])~([A-Za-z_][\w-]{1,30})(?=\/)/g, (_, name: string) => `~${replace('user', name)}`)
    .replace(
      /(?<![\w-])((?:user(?:_?name)?|login|logname|owner)(?:=|["']\s*:\s*["']))([A-Za-z_][\w.-]{0,31})/gi,
      (whole, key: string, name: string) => (NO_SECRET.test(name) ? whole : `${key}${replace('user', name)}`),
    );

const LEVEL_WORD = /^(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL|kernel|root)$/i;
/** Endings of names that only machines have; those that modules of Python have, too (scipy.io), count from three parts on. */
const DOMAIN =
  /(?<![\w.@/-])(?:(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}(?:com|net|org|edu|gov|mil|local|localdomain|internal|intern|lan|corp|intra|intranet|home|arpa)|(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){2,8}(?:io|ai|dev|cloud|cluster|de|uk|fr|ch|at|nl|eu|cn|jp|kr|us|ca|in|co|tech))(?![\w-]|\.\w)/g;

const hosts: Pass = (text, replace) => {
  const named = (before: string, host: string, after = '', weak = false): string =>
    isNamedHost(host) && !LEVEL_WORD.test(host) ? `${before}${replace('host', host, weak)}${after}` : `${before}${host}${after}`;
  return text
    .replace(
      /^((?:[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?) )([A-Za-z0-9][\w.-]*)(?= [\w./()@-]+(?:\[\d+\])?:)/gm,
      (_, time: string, host: string) => named(time, host, '', true),
    )
    .replace(
      /((?:\bnfs|\bceph|\bcifs|\blustre)[^\n]{0,12}?: (?:server|mds|mon\d*|osd\d*) )([A-Za-z0-9][\w.-]*)/gi,
      (_, before: string, host: string) => named(before, host),
    )
    .replace(
      /(?<![\w-])((?:host(?:_?name)?|nodename|node_name|server(?:_?name)?|peer|master_addr)["']?(?:\s?=\s?|:\s)["']?)([A-Za-z0-9][\w.-]{0,253})(?![\w.-])/gi,
      (_, key: string, host: string) => named(key, host, '', true),
    )
    .replace(/(?<![\w.-])ip(?:-\d{1,3}){4}(?![\w-])/g, (host) => replace('host', host))
    .replace(DOMAIN, (host) => named('', host));
};

/** Secrets first, because they may look like anything; names of people and machines last. */
export const PASSES: readonly Pass[] = [privateKeys, urls, tokens, bearers, named, queries, emails, macs, addresses, homes, hosts];
