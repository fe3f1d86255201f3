import type { Finding, Remedy } from '../core/finding.ts';
import { type FindingContext, finding } from './findings.ts';

/**
 * A boot that did not wait for a volume (`nofail`, a unit that starts too early) leaves its mount point as a folder of the disk under it. What lies
 * there is not the run, and what is written there fills that disk and is hidden once the volume is back.
 */
export function mountFindings({ gathered }: FindingContext): Finding[] {
  const { mount, planned } = gathered.host;
  if (planned === null || !planned.known || planned.value === null || !mount.known) return [];
  const { mountPoint, source, filesystem } = planned.value;
  const there = mount.value.mountPoint;
  if (there === mountPoint || there.startsWith(`${mountPoint}/`)) return [];
  const remedy: Remedy = {
    text: 'mount it and look again; nothing is started on the disk under it',
    kind: 'decision',
    commands: [['mount', mountPoint]],
  };
  const evidence = `${planned.source} has ${source} (${filesystem}) for it; ${mount.source} has ${mount.value.source} (${mount.value.filesystem}) at ${there} under this folder`;
  return [
    finding(
      'TM-H21',
      'error',
      `the volume that belongs at ${mountPoint} is not mounted: this is a folder of the disk under it`,
      evidence,
      remedy,
    ),
  ];
}
