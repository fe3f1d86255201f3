import { describe, expect, test } from 'vitest';
import { createAdmission } from './admission.ts';

const never = new AbortController().signal;

describe('admission', () => {
  test('lets in as many as may run, the others in their order', async () => {
    const admission = createAdmission({ runningMost: 1, queuedMost: 3 });
    const order: string[] = [];
    const leaveA = await admission.enter(never);
    const b = admission.enter(never).then((leave) => {
      order.push('b');
      return leave;
    });
    const c = admission.enter(never).then((leave) => {
      order.push('c');
      return leave;
    });
    expect([admission.runningCount, admission.waitingCount]).toEqual([1, 2]);
    leaveA();
    leaveA();
    (await b)();
    (await c)();
    expect(order).toEqual(['b', 'c']);
    expect([admission.runningCount, admission.waitingCount]).toEqual([0, 0]);
  });

  test('refuses one more than may run and wait', async () => {
    const admission = createAdmission({ runningMost: 1, queuedMost: 2 });
    const leave = await admission.enter(never);
    const waiting = admission.enter(never);
    await expect(admission.enter(never)).rejects.toMatchObject({ code: 'engine-busy', retry: 'later' });
    leave();
    (await waiting)();
  });

  test('forgets one who leaves the queue', async () => {
    const admission = createAdmission({ runningMost: 1, queuedMost: 2 });
    const leave = await admission.enter(never);
    const gone = new AbortController();
    const waiting = admission.enter(gone.signal);
    gone.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    expect(admission.waitingCount).toBe(0);
    leave();
    expect(admission.runningCount).toBe(0);
  });

  test('drains: those inside finish, newcomers are refused', async () => {
    const admission = createAdmission({ runningMost: 1, queuedMost: 4 });
    const leave = await admission.enter(never);
    const waiting = admission.enter(never);
    let drained = false;
    const drain = admission.drain().then(() => {
      drained = true;
    });
    await expect(admission.enter(never)).rejects.toMatchObject({ code: 'engine-busy' });
    leave();
    const leaveWaiting = await waiting;
    expect(drained).toBe(false);
    leaveWaiting();
    await drain;
    expect(drained).toBe(true);
  });
});
