import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';

import type { ContainerIdentity, ContainerName } from '../../container.ts';
import { PROTOCOL_VERSION } from '../../channel/frames.ts';
import { identityOf, labels, type Labels } from './names.ts';

/** The sizes of the codes in names, in bytes. Nobody can search for a name offline, since that requires the key. */
const NAME_BYTES = 16;
const HOST_NAME_BYTES = 10;

/** The labels that the code covers in addition to the installation's, in this order. */
const covered = [labels.agent, labels.generation, labels.deployment, labels.allow, labels.address];
/** The label of containers whose first process is a supervisor of this version. The code covers it as well, if it is present. */
const SUPERVISED = PROTOCOL_VERSION;

/** An agent's container, as proven by its name and labels together. */
export interface KnownContainer extends ContainerIdentity {
  /** The value is true if an earlier release created it, whose containers had no code, or no supervisor that this release can speak to. */
  outdated?: true;
}

/**
 * Names this installation's containers, and distinguishes them from all others. Names and labels are message authentication codes under a
 * key that only the installation has. A container also has the labels of its image, and every neighbour on the network can query the
 * engine's name server for names, so neither may help somebody who knows an agent's id, or reveal it to somebody who does not.
 */
export class ContainerIdentities {
  constructor(
    readonly instance: string,
    private readonly key: KeyObject,
  ) {}

  nameOf({ agentId, generation }: ContainerName): string {
    return `mooring-${this.code('name', agentId, String(generation)).toString('hex', 0, NAME_BYTES)}`;
  }

  /** Returns the host name, which the engine's name server knows too. It stays the same for the agent's life. */
  hostNameOf(agentId: string): string {
    return `agent-${this.code('host name', agentId).toString('hex', 0, HOST_NAME_BYTES)}`;
  }

  /** Returns the 48-bit number from which the user id of an agent is derived. */
  userCodeOf(agentId: string): number {
    return this.code('user', agentId).readUIntBE(0, 6);
  }

  /** Returns the code, in hex, from which the names and the user ids of an account's builders are derived. */
  builderCodeOf(accountId: string): string {
    return this.code('builder', accountId).toString('hex');
  }

  /** Returns the labels of a container. `egress` are those from which the proxy's table is built. */
  labelsOf({ agentId, generation, deploymentId }: ContainerIdentity, egress: Labels = {}): Labels {
    const own = {
      [labels.instance]: this.instance,
      [labels.agent]: agentId,
      [labels.generation]: String(generation),
      [labels.deployment]: deploymentId,
      [labels.supervised]: SUPERVISED,
      ...egress,
    };
    return { ...own, [labels.code]: this.codeOf(own) };
  }

  /** Returns the identity of the container; null if it is not one of this installation's agents, whatever its labels say. */
  identify(names: readonly string[], found: Labels): KnownContainer | null {
    if (found[labels.instance] !== this.instance || found[labels.agent] === undefined) return null;
    const claimed = identityOf(found);
    const isNamed = (name: string) => names.some((each) => each.replace(/^\//, '') === name);
    const code = found[labels.code];
    if (code === undefined) return isNamed(outdatedName(claimed)) ? { ...claimed, outdated: true } : null;
    if (!isNamed(this.nameOf(claimed)) || !areEqual(this.codeOf(found), code)) return null;
    return found[labels.supervised] === SUPERVISED ? claimed : { ...claimed, outdated: true };
  }

  private codeOf(found: Labels): string {
    const supervised = found[labels.supervised];
    const parts = covered.map((label) => found[label] ?? null);
    return this.code('labels', ...parts, ...(supervised === undefined ? [] : [supervised])).toString('hex');
  }

  /** JSON separates the parts, and `purpose` the kinds of codes, so that no other parts result in the same code. */
  private code(purpose: string, ...parts: (string | null)[]): Buffer {
    return createHmac('sha256', this.key)
      .update(JSON.stringify([purpose, this.instance, ...parts]))
      .digest();
  }
}

/** Returns the name that earlier releases used. */
export const outdatedName = ({ agentId, generation }: ContainerName): string => `mooring-${agentId}-g${generation}`;

function areEqual(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
