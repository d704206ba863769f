import { RuntimeRefused } from '../../runtime.errors.ts';
import { API_VERSION } from './engine.ts';
import { isPodman, safetyOf, type VersionAnswer } from './engine-version.ts';

const SUPPORTED = 'Docker Engine 20.10 to 29 is supported';

/** The members of the engine's response to `GET /info` that are read. */
export interface InfoAnswer {
  MemoryLimit?: boolean;
  SwapLimit?: boolean;
  CpuCfsQuota?: boolean;
  PidsLimit?: boolean;
  CgroupDriver?: string;
  SecurityOptions?: string[] | null;
}

/** The limits of agents, each with the field in which an engine says whether it enforces it. */
const limits = { memory: 'MemoryLimit', CPU: 'CpuCfsQuota', processes: 'PidsLimit' } as const;

export interface VersionFacts {
  version: string;
  /** The reason why the engine can't be used; null if it can. */
  unsupported: string | null;
  /** The value is true if the engine has faults that an upgrade fixes. */
  hasFaults: boolean;
}

export interface LimitFacts {
  /** The sentence that names the limits of agents which are not known to be enforced; null if all are. */
  unenforced: string | null;
  /** The value is true if agents may take swap beyond their memory. */
  isSwapUnlimited: boolean;
  canFreeze: boolean;
  /** The value is true if the engine gives its containers only some 65,536 user ids. */
  hasFewIds: boolean;
}

/**
 * Evaluates the response to `GET /version`, or its refusal. A refusal that is not about the API's version comes from a proxy in front of
 * the engine.
 */
export function versionFacts(answer: VersionAnswer | RuntimeRefused): VersionFacts {
  if (answer instanceof RuntimeRefused) {
    const isOfApi = /client version \S+ is too (new|old)/i.test(answer.message);
    const unsupported = `The container engine does not serve version ${API_VERSION} of its API. ${SUPPORTED}.`;
    return { version: '', unsupported: isOfApi ? unsupported : null, hasFaults: false };
  }
  const podman = `The container engine is Podman, on which agents can't be kept apart. ${SUPPORTED}.`;
  const unsupported = isPodman(answer.Components) ? podman : null;
  return { version: answer.Version ?? '', unsupported, hasFaults: safetyOf(answer) === 'below' };
}

/**
 * Evaluates the response to `GET /info`, or its refusal. The engine accepts limits, and shows them on containers, whether it enforces them
 * or not.
 */
export function limitFacts(answer: InfoAnswer | RuntimeRefused): LimitFacts {
  const info = answer instanceof RuntimeRefused ? {} : answer;
  const lacking = Object.entries(limits).flatMap(([limit, field]) => (info[field] === true ? [] : [limit]));
  const named = [lacking.slice(0, -1).join(', '), ...lacking.slice(-1)].filter(Boolean).join(' and ');
  return {
    unenforced:
      answer instanceof RuntimeRefused
        ? 'the engine does not tell which limits of agents it enforces, since GET /info is refused'
        : lacking.length === 0
          ? null
          : `the engine does not enforce the limits of agents on ${named}`,
    isSwapUnlimited: info.MemoryLimit === true && info.SwapLimit === false,
    // Without cgroups nothing can be frozen.
    canFreeze: info.CgroupDriver !== 'none',
    hasFewIds: (info.SecurityOptions ?? []).some((option) => /^name=(userns|rootless)\b/.test(option)),
  };
}

/** Returns whether a refused pause means that this engine can pause no container, and not only that this one can't be paused now. */
export const isFreezeUnsupported = ({ message }: RuntimeRefused): boolean =>
  /cannot toggle freezer|cgroups not configured|pause is not supported|not implemented/i.test(message);
