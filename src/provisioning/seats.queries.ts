import { Query } from '@nestjs/cqrs';

export interface UnusedSeat {
  agentId: string;
  accountId: string;
  takenAt: Date;
}

/** Lists the seats whose agent does not exist (yet, or any more). */
export class ListUnusedSeats extends Query<UnusedSeat[]> {}
