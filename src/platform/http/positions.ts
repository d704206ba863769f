import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor, SetMetadata } from '@nestjs/common';
import { ModuleRef, Reflector } from '@nestjs/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Observable, tap } from 'rxjs';

import type { MooringRequest } from './access.ts';
import { START, type Position } from '../event-store/event-store.ts';
import { LastWrites, type LastWrite } from '../event-store/last-writes.ts';
import { ReadModels } from '../projections/projection.ts';
import { Refusal } from '../refusal.ts';

const READS_MODEL = 'mooring:reads-model';

/** The route answers from these projections: it waits until they hold what the caller wrote, or asks for. */
export const ReadsModel = (...projections: string[]) => SetMetadata(READS_MODEL, projections);

/** Read your writes: tells a write's position, and holds a read back until the read model has come that far. */
@Injectable()
export class Positions implements NestInterceptor {
  constructor(
    private readonly reflector: Reflector,
    private readonly modules: ModuleRef,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const http = context.switchToHttp();
    const request = http.getRequest<FastifyRequest & MooringRequest>();
    const projections = this.reflector.get<string[] | undefined>(READS_MODEL, context.getHandler()) ?? [];
    const asked = askedBy(request);
    if (projections.length > 0) {
      const own = request.caller && (await this.modules.get(LastWrites, { strict: false }).of(request.caller.accountId));
      await Promise.all(projections.map((projection) => this.reached(projection, asked, own ?? null)));
    }
    const noteWrite = () => this.noteWrite(request, http.getResponse<FastifyReply>());
    return next.handle().pipe(tap({ next: noteWrite, error: noteWrite }));
  }

  private async reached(projection: string, asked: Position, own: LastWrite | null): Promise<void> {
    const readModels = this.modules.get(ReadModels, { strict: false });
    const known = own?.isOwn === true && own.position > asked ? own.position : asked;
    if (known > START) return readModels.reached(projection, known);
    // Perhaps it wrote so far; what can't be waited for is no reason to refuse it.
    if (own !== null && own.position > START) await readModels.reached(projection, own.position).catch(() => undefined);
    await readModels.whole(projection);
  }

  private noteWrite(request: MooringRequest, reply: FastifyReply): void {
    const position = request.commandContext?.writtenUpTo;
    if (position === undefined) return;
    if (!reply.raw.headersSent) void reply.header('x-event-position', position);
    if (request.caller !== undefined) this.modules.get(LastWrites, { strict: false }).note(request.caller.accountId, position);
  }
}

/** Throws `invalid_request` where the header holds no position. */
function askedBy({ headers }: FastifyRequest): Position {
  const asked = headers['x-min-event-position'];
  if (asked === undefined) return START;
  if (typeof asked === 'string' && /^\d{20}$/.test(asked)) return asked;
  throw new Refusal('invalid_request', 'X-Min-Event-Position must be a position that X-Event-Position gave.', {
    errors: [{ field: 'X-Min-Event-Position', message: 'is not a position' }],
  });
}
