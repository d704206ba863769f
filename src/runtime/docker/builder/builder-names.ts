import { labels, type Labels } from '../engine/names.ts';

/** The label of a builder and of its cache that names their account. */
const ACCOUNT_LABEL = 'mooring.builder';

/** The first user id of builders, above those that hosts give to their users and containers, and the number of ids of one builder. */
const FIRST_ID = 1_879_048_192;
export const IDS_PER_BUILDER = 65_536;
/** The number of ranges. Two accounts may share one, since each also has containers of its own. */
const ID_RANGES = 4_096;

/** One builder of an account. Each process that builds for the account at the same time has another slot, and so another cache. */
export interface BuilderIdentity {
  instance: string;
  accountId: string;
  slot: number;
  /**
   * The account's code under the installation's key, in hex. Steps can query the names of builders, which reveal nothing without the key.
   */
  code: string;
}

export const builderName = ({ code, slot }: BuilderIdentity): string => `mooring-builder-${code.slice(0, 24)}-${slot}`;

/** No name of an agent's volume begins like this. */
export const cacheName = ({ code, slot }: BuilderIdentity): string => `mooring_builder_${code.slice(0, 24)}_${slot}`;

export const builderLabels = ({ instance, accountId }: Pick<BuilderIdentity, 'instance' | 'accountId'>): Labels => ({
  [labels.instance]: instance,
  [ACCOUNT_LABEL]: accountId,
});

/** Returns the labels by which the engine lists the builders and caches of all accounts. */
export const ownFilter = (instance: string): string[] => [`${labels.instance}=${instance}`, ACCOUNT_LABEL];
/** Returns the account of a builder or a cache. */
export const accountOf = (found: Labels): string => found[ACCOUNT_LABEL] ?? '';

/** Returns the user id, on the host, of root in the builder's user namespace. */
export const firstIdOf = ({ code }: BuilderIdentity): number =>
  FIRST_ID + IDS_PER_BUILDER * (Number.parseInt(code.slice(-8), 16) % ID_RANGES);
