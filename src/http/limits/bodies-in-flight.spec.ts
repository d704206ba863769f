import { BodiesInFlight } from './bodies-in-flight.ts';

const make = () => new BodiesInFlight(160);

describe('the bodies that are on their way', () => {
  it('may have so many bytes for one account, and everybody else may go on', () => {
    const bodies = make();
    bodies.add('acme', 40);
    expect(() => bodies.add('acme', 1)).toThrow('of this caller');
    expect(() => bodies.add('other', 40)).not.toThrow();
  });

  it('may have less for all callers without a credential together', () => {
    const bodies = make();
    bodies.add(null, 10);
    expect(() => bodies.add(null, 1)).toThrow('of this caller');
  });

  it('may have so many bytes for all accounts together', () => {
    const bodies = make();
    for (const account of ['a', 'b', 'c', 'd']) bodies.add(account, 40);
    expect(() => bodies.add('e', 1)).toThrow('of all callers');
  });

  it('make room when they are gone, refused ones too', () => {
    const bodies = make();
    bodies.add('acme', 40);
    expect(() => bodies.add('acme', 120)).toThrow('of this caller');
    expect(() => bodies.add('other', 1)).toThrow('of all callers');
    bodies.remove('acme', 120);
    bodies.remove('acme', 40);
    bodies.remove('other', 1);
    for (const account of ['acme', 'other']) expect(() => bodies.add(account, 40)).not.toThrow();
  });
});
