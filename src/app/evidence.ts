import { isAbsolute, resolve } from 'node:path';
import { createGuard } from '../assess/gather-guard.ts';
import { isTidemarkError, messageOf, TidemarkError } from '../core/errors.ts';
import { shortenLists } from '../core/json-strings.ts';
import { createRedactor, type RedactionCounts, type Redactor } from '../core/redact.ts';
import type { Report } from '../core/report.ts';
import { RowWords } from '../core/row-words.ts';
import { shellLine } from '../core/shell-line.ts';
import type { Level } from '../core/verdict.ts';
import type { Host } from '../host/host.ts';
import { openLedger } from '../ledger/open.ts';
import { assessAt } from './assessment.ts';
import { parseSettings } from './config-settings.ts';
import { tarball } from './evidence-archive.ts';
import { EVIDENCE_BOUNDS } from './evidence-bounds.ts';
import { evidencePath, publishEvidence } from './evidence-file.ts';
import { gatherHostFacts, type PathsInPlay } from './evidence-host.ts';
import { gatherGivenLog, gatherSystemLines, realLog } from './evidence-logs.ts';
import type { GatheredPart, Unknown } from './evidence-member.ts';
import { cutRowText, learnWords, type PackedMember, packedText, packMember, redactMembers } from './evidence-pack.ts';
import { type RowTextCheck, seeRows } from './evidence-rows.ts';
import { gatherRunRecords } from './evidence-run.ts';
import { gatherTree } from './evidence-tree.ts';
import { VERSION } from './version.ts';

const FOLDER_IN_TARBALL = 'tidemark-evidence';
const REPORT = 'report.json';

const STATED_BYTES_MOST = 256 * 1024;

export interface EvidenceOptions {
  readonly dataset: string | null;
  readonly model: string | null;
  readonly level: Level;
  readonly layout: string | null;
  readonly log: string | null;
  /** Null: a name of ours in the current folder. */
  readonly output: string | null;
  /** Gathers and redacts, and writes nothing. */
  readonly dryRun: boolean;
  readonly cwd: string;
  /** Of the person who calls: their name and home folder are replaced wherever they stand. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The report as people read it. */
  readonly renderText: (report: Report) => string;
  /** Where the machine's plain logs are. Default `/var/log`. */
  readonly systemLogs?: string;
}

/** `MANIFEST.json`, see docs/evidence.md. */
export interface EvidenceManifest {
  readonly format: 'tidemark.evidence/1';
  readonly tidemark: string;
  readonly createdAt: string;
  readonly folder: string;
  readonly level: Level;
  readonly members: readonly (Omit<PackedMember, 'bytes'> & { readonly bytes: number })[];
  readonly unknown: readonly Unknown[];
  /** Different things of each kind, over all members. */
  readonly redacted: RedactionCounts;
  readonly rowText: RowTextCheck;
  readonly bounds: typeof EVIDENCE_BOUNDS;
}

export interface Evidence {
  readonly path: string;
  /** Of the tarball; null on a dry run. */
  readonly bytes: number | null;
  readonly manifest: EvidenceManifest;
}

/**
 * Packs what a person elsewhere needs to judge a crash, before logs rotate, into one redacted tarball. The folder is only read.
 * @throws TidemarkError `usage` for an output that may not be written, `no-run` where there is no folder, `storage-*` when the tarball cannot be written
 */
export async function makeEvidence(host: Host, folder: string, options: EvidenceOptions): Promise<Evidence> {
  const root = resolve(options.cwd, folder);
  await refuseNoFolder(host, root);
  const nowMs = host.clock.now();
  const output = options.output === null ? null : resolve(options.cwd, options.output);
  const path = await evidencePath(host, { output, cwd: options.cwd, folder: root, nowMs });
  const guard = createGuard(host.clock);
  try {
    const { members, manifest } = await pack(host, root, nowMs, options, guard);
    if (options.dryRun) return { path, bytes: null, manifest };
    const first = packedText('MANIFEST.json', `${JSON.stringify(manifest, null, 2)}\n`, { source: '', leftOut: [], redacted: {} });
    const bytes = await tarball([first, ...members], { folder: FOLDER_IN_TARBALL, at: new Date(nowMs) });
    await publishEvidence(host, path, bytes);
    return { path, bytes: bytes.length, manifest };
  } finally {
    guard.dispose();
  }
}

async function refuseNoFolder(host: Host, root: string): Promise<void> {
  const there = await host.files.stat((await host.files.realPath(root)) ?? root);
  if (there === null)
    throw new TidemarkError('no-run', `there is no folder ${root}`, { where: root, hint: shellLine(['ls', '-ld', root]) });
  if (there.kind !== 'directory')
    throw new TidemarkError('usage', `${root} is a ${there.kind}, not a folder`, {
      where: root,
      hint: shellLine(['tidemark', 'inspect', root]),
    });
}

async function pack(
  host: Host,
  root: string,
  nowMs: number,
  options: EvidenceOptions,
  guard: ReturnType<typeof createGuard>,
): Promise<{ readonly members: readonly PackedMember[]; readonly manifest: EvidenceManifest }> {
  const reader = { files: host.files, guard };
  const log = options.log === null ? null : await realLog(host.files, resolve(options.cwd, options.log));
  const report = await reportPart(host, root, options, log);
  const paths = await pathsInPlay(host, root, options);
  const parts: GatheredPart[] = [
    report,
    await gatherHostFacts(reader, host, paths),
    await gatherRunRecords(reader, host, root),
    await gatherTree(reader, root),
    await gatherSystemLines(reader, options.systemLogs),
    ...(log === null ? [] : [await gatherGivenLog(reader, log)]),
  ];
  const unknown = parts.flatMap((part) => part.unknown);
  const redactor = createRedactor();
  await knowNames(host, redactor, options, Object.values(paths));
  const redacted = redactMembers(
    parts.flatMap((part) => part.members),
    redactor,
  );
  const words = new RowWords();
  learnWords(redacted, words);
  const seen = await seeRows(host.files, paths.dataset ?? null, words);
  const members: PackedMember[] = [];
  let cuts = 0;
  for (const one of redacted) {
    const cut = cutRowText(one, words);
    cuts += (cut.counts.text ?? 0) - (one.counts.text ?? 0);
    add(members, unknown, one.member.name, packMember(cut, redactor));
    if (one.member.name === REPORT && cut.content.kind === 'json') {
      // Made from the redacted document: a value that was wrapped over two lines would be found by nobody.
      const text = options.renderText(cut.content.value as Report);
      const about = { source: `${REPORT}, as text`, leftOut: [], redacted: {} };
      add(members, unknown, 'report.txt', redactor.leaks(text) ? null : packedText('report.txt', text, about));
    }
  }
  const rowText: RowTextCheck = seen.compared === 'nothing' ? { ...seen, why: redactor.text(seen.why) } : { ...seen, cuts };
  return {
    members,
    manifest: {
      format: 'tidemark.evidence/1',
      tidemark: VERSION,
      createdAt: new Date(nowMs).toISOString(),
      folder: redactor.text(root),
      level: options.level,
      members: members.map(({ name, bytes, ...member }) => ({ name, bytes: bytes.length, ...member })),
      unknown: unknown.map(({ what, why }) => ({ what: redactor.text(what), why: redactor.text(why) })),
      redacted: redactor.distinct(),
      rowText,
      bounds: EVIDENCE_BOUNDS,
    },
  };
}

function add(members: PackedMember[], unknown: Unknown[], name: string, member: PackedMember | null): void {
  if (member !== null) members.push(member);
  else unknown.push({ what: name, why: 'left out: it holds a secret that stands elsewhere, in a form that could not be replaced' });
}

/** The document of `assess --json`. An assessment that fails is news for whoever reads the evidence, and no reason to have none. */
async function reportPart(host: Host, root: string, options: EvidenceOptions, log: string | null): Promise<GatheredPart> {
  try {
    const report = withoutLogLines(await assessAt(host, root, { ...options, log }));
    const full = JSON.stringify(report).length <= EVIDENCE_BOUNDS.reportBytes;
    const { value, leftOut } = full ? { value: report, leftOut: 0 } : shortenLists(report, EVIDENCE_BOUNDS.reportListItems);
    const told = leftOut === 0 ? [] : [`${leftOut} items of lists longer than ${EVIDENCE_BOUNDS.reportListItems}`];
    return { members: [{ name: REPORT, source: `tidemark assess ${root}`, content: { kind: 'json', value }, leftOut: told }], unknown: [] };
  } catch (error) {
    if (isTidemarkError(error, 'usage', 'interrupted')) throw error;
    return { members: [], unknown: [{ what: REPORT, why: `the assessment failed: ${messageOf(error)}` }] };
  }
}

/** A finding quotes lines of `--log` whatever their form, and a line may be what a driver has printed: the slices show what may be shown. */
function withoutLogLines(report: Report): Report {
  const findings = report.findings.map((finding) =>
    finding.code === 'TM-S18'
      ? {
          ...finding,
          evidence: finding.evidence.replace(/: line (\d+): [\s\S]*$/, ': from line $1 on; logs/given.txt has what may be shown of it'),
        }
      : finding,
  );
  return { ...report, findings };
}

/**
 * The dataset that damaged settings name all the same: good enough to tell its text from a log's, and nothing else is done with it. Without
 * it nobody could say which words of a log are somebody's prompt.
 */
async function statedDataset(host: Host, root: string): Promise<string | undefined> {
  try {
    const bytes = await host.files.readSmall(`${root}/.tidemark/settings.json`, STATED_BYTES_MOST);
    const stated: unknown = bytes === null ? null : JSON.parse(Buffer.from(bytes).toString('utf8'));
    if (typeof stated !== 'object' || stated === null || !('dataset' in stated)) return undefined;
    const { dataset } = stated;
    if (typeof dataset !== 'object' || dataset === null || !('path' in dataset)) return undefined;
    return typeof dataset.path === 'string' && isAbsolute(dataset.path) ? dataset.path : undefined;
  } catch {
    // Not readable or no JSON: then the manifest says that nothing was compared.
    return undefined;
  }
}

/** The folder, where the tarball goes by default, and what the run's settings name. */
async function pathsInPlay(host: Host, root: string, options: EvidenceOptions): Promise<PathsInPlay> {
  const settings = await openLedger(host, root, { parseSettings }).then(
    (ledger) => ledger?.settings ?? null,
    () => null,
  );
  const dataset =
    options.dataset === null ? (settings?.dataset.path ?? (await statedDataset(host, root))) : resolve(options.cwd, options.dataset);
  const model = options.model === null ? settings?.target.model : resolve(options.cwd, options.model);
  return {
    folder: root,
    current: options.cwd,
    ...(dataset === undefined ? {} : { dataset }),
    ...(model === undefined ? {} : { model }),
    ...(settings === null ? {} : { staging: settings.engine.staging }),
  };
}

/** Names that are facts: this machine's, the caller's, and those of home folders that paths lie in, whatever characters they have. */
async function knowNames(host: Host, redactor: Redactor, options: EvidenceOptions, paths: readonly string[]): Promise<void> {
  redactor.know('host', (await host.machine.self()).hostname);
  const { HOME: home = '', USER: user = '', LOGNAME: login = '' } = options.environment;
  for (const path of [...paths, home]) {
    const owner = /\/(?:home|Users)\/([^/]+)/.exec(path)?.[1];
    if (owner !== undefined) redactor.know('user', owner);
  }
  for (const name of [user, login, home.split('/').at(-1) ?? '']) if (name !== 'root') redactor.know('user', name);
}
