import { expect, test } from 'vitest';
import { createLocalClock } from './local-clock.ts';

const clock = createLocalClock();

test('sleeps at least as long as asked', async () => {
  const before = clock.monotonicMs();
  await clock.sleep(30);
  expect(clock.monotonicMs() - before).toBeGreaterThanOrEqual(30);
  await clock.sleep(0);
  await clock.sleep(-5);
});

test('rejects with the reason of the signal, at once', async () => {
  const controller = new AbortController();
  const before = clock.monotonicMs();
  const pending = clock.sleep(60_000, controller.signal);
  const reason = new Error('enough');
  controller.abort(reason);
  await expect(pending).rejects.toBe(reason);
  await expect(clock.sleep(60_000, controller.signal)).rejects.toBe(reason);
  expect(clock.monotonicMs() - before).toBeLessThan(1000);
});

test('longer than a timer can be', async () => {
  const controller = new AbortController();
  const pending = clock.sleep(2 ** 40, controller.signal);
  const first = await Promise.race([pending.then(() => 'slept'), clock.sleep(50).then(() => 'still asleep')]);
  expect(first).toBe('still asleep');
  controller.abort(new Error('enough'));
  await expect(pending).rejects.toThrow('enough');
});

test('now is the time of day', () => {
  expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1000);
});
