import { decodeOctal, isBelow } from './proc.ts';

/** A mount that the machine's owner wants to be there after a boot. */
export interface PlannedMount {
  readonly mountPoint: string;
  readonly source: string;
  readonly filesystem: string;
}

/** /etc/fstab, without what is mounted only on demand (`noauto`), swap, and the root itself. Lines of an unknown form are left out. */
export function parseFstab(text: string): readonly PlannedMount[] {
  return text.split('\n').flatMap((line) => {
    const [source = '', point = '', filesystem = '', options = ''] = line.trim().split(/\s+/).map(decodeOctal);
    const mountPoint = point.length > 1 ? point.replace(/\/+$/, '') : point;
    if (source.startsWith('#') || !mountPoint.startsWith('/') || mountPoint.length < 2 || filesystem === '') return [];
    return filesystem === 'swap' || options.split(',').includes('noauto') ? [] : [{ mountPoint, source, filesystem }];
  });
}

/** The mount that `path` should lie on: the deepest of those that are planned. */
export function plannedUnder(planned: readonly PlannedMount[], path: string): PlannedMount | null {
  let deepest: PlannedMount | null = null;
  for (const mount of planned) {
    if (isBelow(path, mount.mountPoint) && (deepest === null || mount.mountPoint.length >= deepest.mountPoint.length)) deepest = mount;
  }
  return deepest;
}
