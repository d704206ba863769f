import { ApiProperty } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsOptional } from 'class-validator';

import { checked, Egress, EgressShape, Given, nameRule, Text } from '../agents/index.ts';
import { PageQueryDto } from '../../http/requests/page.dto.ts';
import type { AgentEgress } from '../../kernel/network/allow-list.ts';
import { shownStatus, type ShownStatus } from './aggregate/computer-state.rules.ts';
import type { ComputerSize, Display } from './aggregate/computers.events.ts';
import {
  displayMessage,
  endUserRule,
  idleTimeoutMessage,
  sizes,
  timezoneRule,
  variableChangesMessage,
  variablesMessage,
} from './fields/computer-fields.ts';
import type { ComputerView } from './rows/computers.table.ts';

/** The home folder of a computer's programs, which is its volume. */
const ROOT = '/home/user';

const statuses = ['creating', 'waking', 'awake', 'asleep', 'error'] as const;

const DisplayShape = ({ required = true } = {}) =>
  ApiProperty({
    selfRequired: required,
    type: 'object',
    properties: {
      width: { type: 'integer', minimum: 640, maximum: 2560 },
      height: { type: 'integer', minimum: 480, maximum: 1600 },
    },
  });

const VariablesShape = (description: string, values: object) =>
  ApiProperty({ selfRequired: false, type: 'object', description, additionalProperties: values });

/** The settings of a computer that may be changed. */
class ComputerSettingsDto {
  /** The name of the computer, 1 to 63 characters. */
  @Given()
  @Text(nameRule)
  name?: string;

  /** The size: `small` has 1 processor and 2 GiB, `medium` 2 and 4, `large` 4 and 8. A change takes effect at the next boot. */
  @Given()
  @IsIn(sizes)
  size?: ComputerSize;

  /** The screen in pixels, 640x480 to 2560x1600. A change takes effect at the next boot. */
  @Given()
  @checked('display', displayMessage)
  @DisplayShape({ required: false })
  display?: Display;

  /** The time without use, in seconds, after which the computer sleeps: 0 (never) or 60 to 86400. */
  @Given()
  @checked('idleTimeout', idleTimeoutMessage)
  idle_timeout_seconds?: number;

  /** The computer may reach everything that the operator allows (`internet`, the default, or null), nothing (`none`), or the listed names and IPv4 addresses alone (`{"allow": ["api.example.com", "*.example.org", "203.0.113.0/24"]}`). A change takes effect at the next boot. */
  @Given()
  @Egress()
  egress?: AgentEgress | null;
}

export class CreateComputerDto extends ComputerSettingsDto {
  /** The caller's own id for the person whose desktop this is: each has one computer. */
  @Text(endUserRule)
  end_user_id: string;

  /** The time zone, by its IANA name; the default is `UTC`. */
  @Given()
  @Text(timezoneRule)
  timezone?: string;

  @Given()
  @checked('variables', variablesMessage)
  @VariablesShape('The variables of the computer’s programs by name. They are kept encrypted, and no answer shows them.', {
    type: 'string',
  })
  env_vars?: Record<string, string>;
}

/** The settings to change; those that are absent stay. */
export class UpdateComputerDto extends ComputerSettingsDto {
  @Given()
  @checked('variableChanges', variableChangesMessage)
  @VariablesShape('The variables to set, by name; null removes one. They take effect at the next boot.', { type: ['string', 'null'] })
  env_vars?: Record<string, string | null>;
}

export class SleepComputerDto {
  /** The value true also puts a computer to sleep that a person views at the moment; their session is closed. */
  @IsOptional()
  @IsBoolean()
  force?: boolean;
}

export class WakeComputerQueryDto {
  /** The value false answers immediately, before the computer is awake. */
  @IsOptional()
  @IsIn(['true', 'false'])
  wait?: 'true' | 'false';
}

export class ListComputersQueryDto extends PageQueryDto {
  /** Selects the computer of this end user. */
  @IsOptional()
  @Text(endUserRule)
  end_user_id?: string;

  /** Selects computers with this status. */
  @IsOptional()
  @IsIn(statuses)
  status?: (typeof statuses)[number];
}

export class ComputerDto {
  computer_id: string;
  end_user_id: string;
  name: string;
  /** The status: `creating`, `waking`, `awake`, `asleep` or `error`; `deleting` only in the answer to a deletion in progress. */
  status: ShownStatus;
  size: ComputerSize;
  @DisplayShape()
  display: Display;
  timezone: string;
  idle_timeout_seconds: number;
  @EgressShape()
  egress: AgentEgress | null;
  /** A sentence about the status, such as the reason of an error; null if there is nothing to say. */
  status_message: string | null;
  /** The home folder, which outlives the container. */
  root: string;
  created_at: string;
  last_active_at: string | null;
  /** The time since which the computer is awake; null while it is not. */
  awake_since: string | null;
  /** The time at which the computer fell asleep; null while it is awake. */
  slept_at: string | null;
}

export function toComputerDto({ computer_id, state, created_at, last_active_at }: ComputerView): ComputerDto {
  const { endUserId, settings, message, activeSince, sleptAt } = state;
  const { name, size, display, timezone, idle_timeout_seconds, egress = null } = settings;
  return {
    computer_id,
    end_user_id: endUserId,
    name,
    status: shownStatus(state),
    size,
    display,
    timezone,
    idle_timeout_seconds,
    egress,
    status_message: message,
    root: ROOT,
    created_at: created_at.toISOString(),
    last_active_at: last_active_at?.toISOString() ?? null,
    awake_since: activeSince,
    slept_at: sleptAt,
  };
}
