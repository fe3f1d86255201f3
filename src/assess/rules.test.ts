import { describe, expect, it } from 'vitest';
import { COLUMNS, COMBINATIONS, NOTHING_SEEN, packFacts, type RowFacts, unpackFacts } from './facts.ts';
import { decide, firstRule, impossible, RULES } from './rules.ts';

function every(): RowFacts[] {
  return Array.from({ length: COMBINATIONS }, (_, packed) => unpackFacts(packed));
}

describe('the decision table', () => {
  it('gives every combination of facts exactly one case, or says why it cannot be', () => {
    const seen = new Map<string, number>();
    for (const facts of every()) {
      const why = impossible(facts);
      if (why !== null) {
        expect(() => decide(packFacts(facts))).toThrow(why);
        seen.set('impossible', (seen.get('impossible') ?? 0) + 1);
        continue;
      }
      const rule = firstRule(facts);
      expect(rule, JSON.stringify(facts)).not.toBeNull();
      if (rule !== null) {
        expect(decide(packFacts(facts)).label).toBe(rule.label);
        seen.set(rule.label, (seen.get(rule.label) ?? 0) + 1);
      }
    }
    expect([...seen.values()].reduce((sum, count) => sum + count, 0)).toBe(COMBINATIONS);
    // Every case happens.
    for (const rule of RULES) expect(seen.get(rule.label), rule.label).toBeGreaterThan(0);
  });

  it('packs and unpacks facts without loss', () => {
    for (const facts of every()) expect(unpackFacts(packFacts(facts))).toEqual(facts);
    expect(COMBINATIONS).toBeLessThanOrEqual(65536);
    expect(Object.keys(COLUMNS)).toEqual(Object.keys(NOTHING_SEEN));
  });

  it('never calls a row sound that has no file or of which something speaks against it', () => {
    for (const facts of every()) {
      if (impossible(facts) !== null || decide(packFacts(facts)).verdict !== 'sound') continue;
      expect(facts.file).not.toBe('no');
      expect(facts.readable).not.toBe('no');
      expect(facts.whole).not.toBe('no');
      expect(facts.checksum).not.toBe('differs');
      expect(facts.ids).not.toBe('differ');
      expect(facts.values).not.toBe('bad');
      expect(facts.shape).not.toBe('misfit');
    }
  });

  it('never compares ids before their bytes are proved', () => {
    for (const facts of every()) {
      if (impossible(facts) !== null || decide(packFacts(facts)).verdict !== 'drifted') continue;
      expect(facts.checksum).not.toBe('differs');
      expect(facts.whole).not.toBe('no');
    }
  });

  it('never sets a file aside that a live process may be writing and no journal has', () => {
    for (const facts of every()) {
      if (impossible(facts) !== null || facts.file !== 'open' || facts.ledger === 'committed') continue;
      const decision = decide(packFacts(facts));
      if (facts.whole === 'no' && facts.readable !== 'no') expect(decision.step).toBe('wait');
    }
  });
});
