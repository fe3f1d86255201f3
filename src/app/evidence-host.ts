import type { Host } from '../host/host.ts';
import type { GatheredPart, Unknown } from './evidence-member.ts';
import { type EvidenceReader, tryRead } from './evidence-read.ts';
import { VERSION } from './version.ts';

/** Paths that the evidence speaks of, by what they are. */
export type PathsInPlay = Readonly<Record<string, string>>;

/** Boot, memory, write-back settings, versions; of each path in play its mount and the space on it. */
export async function gatherHostFacts(reader: EvidenceReader, host: Host, paths: PathsInPlay): Promise<GatheredPart> {
  const unknown: Unknown[] = [];
  const facts = await tryRead(reader, 'the facts of this machine', () => host.machine.facts());
  if (!facts.ok) unknown.push({ what: 'host.json: facts', why: facts.why });
  const places: Record<string, unknown> = {};
  for (const [name, path] of Object.entries(paths)) {
    const mount = await tryRead(reader, `the mount of ${path}`, () => host.machine.mountOf(path));
    const space = await tryRead(reader, `the free space of ${path}`, () => reader.files.space(path));
    if (!mount.ok) unknown.push({ what: `host.json: mount of ${path}`, why: mount.why });
    else if (!mount.value.known) unknown.push({ what: `host.json: mount of ${path}`, why: mount.value.why });
    if (!space.ok) unknown.push({ what: `host.json: space of ${path}`, why: space.why });
    places[name] = { path, mount: mount.ok ? mount.value : null, space: space.ok ? space.value : null };
  }
  const value = { tidemark: VERSION, facts: facts.ok ? facts.value : null, places };
  return { members: [{ name: 'host.json', source: '/proc, statfs', content: { kind: 'json', value }, leftOut: [] }], unknown };
}
