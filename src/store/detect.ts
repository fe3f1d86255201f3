import { TidemarkError } from '../core/errors.ts';
import type { Codec } from '../core/run-layout.ts';
import type { FileReader } from '../host/host.ts';
import type { Family } from './family.ts';
import { type Form, formIn } from './form.ts';
import { groupsOf } from './groups.ts';
import { formulaLayout, isFormula, unlocatedLayout } from './layout.ts';
import type { LayoutChoice } from './layout-option.ts';
import { FAMILIES } from './layouts/registry.ts';
import { type FileSeen, lookAtFiles, lookAtNames, type NamesSeen } from './look.ts';
import { type Pattern, parsePattern } from './pattern.ts';
import type { Layout, Numbering } from './store.ts';

/** One way to read the tree. */
interface Reading {
  readonly family: Family;
  readonly pattern: Pattern;
  readonly files: readonly string[];
}

/** A second reading with a quarter of the first one's files is no accident. */
const STRAY_SHARE = 4;

/**
 * The layout of a tree that tidemark did not write, told by looking: names propose, the tensors of a few files decide. A
 * layout that comes back not `located` goes through `placeFiles` before anything else uses it.
 *
 * @param choice what `--layout` forces; null looks for itself
 * @throws TidemarkError `no-run` when nothing here looks like samples, `decision-needed` when it can be read in two ways
 */
export async function detectLayout(files: FileReader, folder: string, choice: LayoutChoice | null = null): Promise<Layout> {
  const names = await lookAtNames(files, folder);
  const byNames = choice?.kind === 'pattern' ? patternReadings(names, choice.pattern) : familyReadings(names, choice?.family ?? null);
  if (byNames.length === 0) throw nothingKnown(folder, choice);
  const extension = onlyOne(folder, 'the extension', filesByExtension(byNames));
  const readings = byNames.filter(({ pattern }) => extensionOf(pattern) === extension);
  const seen = await lookAtFiles(files, folder, pathsOf(readings));
  const { family, form } = familyOf(folder, readings, seen);
  const kind = { name: family.name, form };
  const reading = patternIn(
    folder,
    readings.filter((candidate) => candidate.family === family),
  );
  const numbering = choice?.kind === 'pattern' ? numberingOf(reading.pattern) : family.numbering;
  const codec = codecOf(folder, extension, seen);
  const shape = { pattern: reading.pattern.text, codec };
  if (numbering !== 'row' || !isFormula(reading.pattern)) return unlocatedLayout(kind, { ...shape, groupSize: 0, numbering });
  if (!reading.pattern.fields.has('from')) return formulaLayout(kind, { ...shape, groupSize: 0 });
  return formulaLayout(kind, { ...shape, ...groupsOf(folder, reading.pattern, names.folders, family.groupSize) });
}

/** Every family's patterns with every extension, as far as names have that form. */
function familyReadings(names: NamesSeen, only: Family | null): Reading[] {
  const readings: Reading[] = [];
  const byExtension = new Map<string, string[]>();
  const known = new Map<string, string[]>();
  for (const path of names.files) {
    const extension = /\.(ckpt\.gz|pt\.gz|ckpt|pt|safetensors)$/.exec(path)?.[1];
    if (extension === undefined) continue;
    const list = byExtension.get(extension);
    if (list === undefined) byExtension.set(extension, [path]);
    else list.push(path);
  }
  for (const family of only === null ? FAMILIES : [only]) {
    for (const [extension, paths] of byExtension) {
      if (!family.extensions.includes(extension)) continue;
      for (const text of family.patterns) {
        // Families share patterns: a large folder is gone through once for each.
        const key = `${text}.${extension}`;
        const pattern = parsePattern(key);
        const files = known.get(key) ?? paths.filter((path) => pattern.fits(path));
        known.set(key, files);
        if (files.length > 0) readings.push({ family, pattern, files });
      }
    }
  }
  return readings;
}

function patternReadings(names: NamesSeen, pattern: Pattern): Reading[] {
  const files = names.files.filter((path) => pattern.fits(path));
  return files.length === 0 ? [] : FAMILIES.map((family) => ({ family, pattern, files }));
}

interface FamilySeen {
  readonly family: Family;
  /** As the tool writes it, or with a leading axis more or less: somebody's own patch of the tool. */
  readonly form: Form;
}

/** The family whose tensors the files have: of several that fit a file, the one that knows most of its tensors. */
function familyOf(folder: string, readings: readonly Reading[], seen: readonly FileSeen[]): FamilySeen {
  const votes = votesOf(readings, seen);
  const readable = seen.find((file) => file.tensors !== null);
  if (readable !== undefined && votes.length === 0) {
    throw new TidemarkError(
      'no-run',
      `${folder}: ${readable.path} holds the tensors ${[...(readable.tensors?.keys() ?? [])].slice(0, 12).join(', ')}, which no known layout has`,
      {
        where: folder,
        hint: `tidemark inspect ${folder}/${readable.path}`,
      },
    );
  }
  const usual = mostNamed(readings).family;
  if (votes.length === 0) return { family: usual, form: usual.form };
  const name = onlyOne(folder, 'the layout', counted(votes.map(({ family }) => family.name)));
  const axes = (form: Form): string => form.map((tensor) => `${tensor.name} [${tensor.axes.join(', ')}]`).join(' ');
  const own = votes.filter(({ family }) => family.name === name);
  const text = onlyOne(folder, 'the shape of its tensors', counted(own.map(({ form }) => axes(form))));
  return own.find(({ form }) => axes(form) === text) ?? { family: usual, form: usual.form };
}

function votesOf(readings: readonly Reading[], seen: readonly FileSeen[]): FamilySeen[] {
  const candidates = [...new Set(readings.map((reading) => reading.family))];
  const votes: FamilySeen[] = [];
  for (const file of seen) {
    if (file.tensors === null) continue;
    const { tensors } = file;
    // Names may rule a family out for this very file: `data_7.pt` is no name of another one's pattern.
    const named = candidates.filter((family) => readings.some((reading) => reading.family === family && reading.pattern.fits(file.path)));
    const fits = named.flatMap((family) => {
      const written = formIn(family.form, tensors, 'as-written');
      // What a version of the tool may leave out stays in the form until the tree is adopted: other files may have it.
      if (written !== null) return [{ family, form: family.form, known: written.length }];
      const form = formIn(family.form, tensors, 'either');
      // Half a tensor less: of two that know as many, the one whose axes are the tool's own.
      return form === null ? [] : [{ family, form, known: form.length - 0.5 }];
    });
    const most = Math.max(...fits.map(({ known }) => known));
    // Of equals the earlier one in the registry: it is the one whose name says more (`hs_7` before any name).
    const best = fits.find(({ known }) => known === most);
    if (best !== undefined) votes.push(best);
  }
  return votes;
}

function patternIn(folder: string, readings: readonly Reading[]): Reading {
  const text = onlyOne(
    folder,
    'the pattern of its names',
    new Map(readings.map((reading) => [reading.pattern.text, reading.files.length])),
  );
  return readings.find((reading) => reading.pattern.text === text) ?? mostNamed(readings);
}

function mostNamed(readings: readonly Reading[]): Reading {
  return [...readings].sort((a, b) => b.files.length - a.files.length)[0] as Reading;
}

/** Of a user's own pattern: a rank's numbers are its own, other numbers are rows. */
function numberingOf(pattern: Pattern): Numbering {
  if (!pattern.fields.has('index')) return 'none';
  return pattern.fields.has('rank') ? 'local' : 'row';
}

/** By the extension, unless the files themselves are something else. */
function codecOf(folder: string, extension: string, seen: readonly FileSeen[]): Codec {
  const known = seen.flatMap(({ codec, tensors }) => (codec === null || tensors === null ? [] : [codec]));
  const named: Codec | null = /gz$/.test(extension) ? 'torch-gzip' : extension === 'safetensors' ? 'safetensors' : 'torch-zip';
  return known.length === 0 ? named : (onlyOne(folder, 'the container of its files', counted(known)) as Codec);
}

function extensionOf(pattern: Pattern): string {
  return /\.([A-Za-z][A-Za-z0-9]*(?:\.gz)?)$/.exec(pattern.text)?.[1] ?? '';
}

function pathsOf(readings: readonly Reading[]): string[] {
  const lists = [...new Set(readings.map((reading) => reading.files))];
  return lists.length === 1 ? [...(lists[0] ?? [])] : [...new Set(lists.flat())];
}

function filesByExtension(readings: readonly Reading[]): Map<string, number> {
  const extensions = new Set(readings.map(({ pattern }) => extensionOf(pattern)));
  const filesOf = (extension: string): string[] => pathsOf(readings.filter(({ pattern }) => extensionOf(pattern) === extension));
  return new Map([...extensions].map((extension) => [extension, filesOf(extension).length]));
}

function counted<T extends string>(values: readonly T[]): Map<T, number> {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

/** The value of nearly all; a few strays are foreign files, anything more even is a question. */
function onlyOne(folder: string, what: string, counts: ReadonlyMap<string, number>): string {
  const ordered = [...counts].sort((a, b) => b[1] - a[1]);
  const [first, second] = ordered;
  if (first !== undefined && (second === undefined || second[1] * STRAY_SHARE <= first[1])) return first[0];
  const seen = ordered.map(([value, count]) => `${value} (${count} files)`).join(', ');
  throw new TidemarkError('decision-needed', `${folder} can be read in more than one way: ${what} is ${seen}`, {
    where: folder,
    hint: `say which with --layout NAME or --layout PATTERN, for example --layout 'rows_{from}-{to}/data_{index}.ckpt'`,
  });
}

function nothingKnown(folder: string, choice: LayoutChoice | null): TidemarkError {
  const what =
    choice === null
      ? 'no samples that tidemark knows: no .tidemark/run.json, and no names such as rows_A-B/data_I.ckpt, hs_I.safetensors or ID.pt'
      : `no names of the layout ${choice.kind === 'family' ? choice.family.name : choice.pattern.text}`;
  return new TidemarkError('no-run', `${folder} holds ${what}`, { where: folder, hint: `ls ${folder}` });
}
