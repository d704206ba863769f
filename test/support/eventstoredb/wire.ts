import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { Metadata, status, type ServiceError } from '@grpc/grpc-js';
import type { AppendAnswer, Expected, LogRecord, Proposed } from './memory-log.ts';

const { AppendResp, ReadResp } = streams;
type ReadResponse = InstanceType<typeof ReadResp>;

/** Makes an error as the server sends it: its details are in the trailers. */
export function failure(code: status, details: string, trailers: Record<string, string> = {}): ServiceError {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(trailers)) metadata.add(name, value);
  return Object.assign(new Error(details), { code, details, metadata });
}

export const unavailable = (details = 'Server Is Not Ready') => failure(status.UNAVAILABLE, details);
export const tooSlow = () => failure(status.ABORTED, 'Operation timed out: Consumer too slow to handle event while live.');
export const commitTimeout = () => failure(status.ABORTED, 'Operation timed out: Commit phase timeout.');
export const notLeader = (host: string, port: number) =>
  failure(status.NOT_FOUND, `Leader info available: ${host}:${port}`, {
    exception: 'not-leader',
    'leader-endpoint-host': host,
    'leader-endpoint-port': String(port),
  });
export const deleted = (stream: string) =>
  failure(status.FAILED_PRECONDITION, `Event stream '${stream}' is deleted.`, { exception: 'stream-deleted', 'stream-name': stream });
const tooBig = () =>
  failure(status.INVALID_ARGUMENT, 'Maximum Append Size of 1048576 Exceeded.', {
    exception: 'maximum-append-size-exceeded',
    'maximum-append-size': '1048576',
  });

export function expectedOf(options: InstanceType<typeof streams.AppendReq.Options>): Expected {
  if (options.hasRevision()) return Number(options.getRevision());
  if (options.hasNoStream()) return 'no_stream';
  return options.hasStreamExists() ? 'stream_exists' : 'any';
}

export function proposedOf(message: InstanceType<typeof streams.AppendReq.ProposedMessage>): Proposed {
  const described = message.getMetadataMap();
  return {
    id: message.getId()?.getString() ?? '',
    type: described.get('type') ?? '',
    contentType: described.get('content-type') ?? '',
    data: message.getData_asU8(),
    metadata: message.getCustomMetadata_asU8(),
  };
}

export function streamName(identifier: InstanceType<typeof shared.StreamIdentifier> | undefined): string {
  return Buffer.from(identifier?.getStreamName_asU8() ?? []).toString();
}

/** Makes the response to an append. Throws the errors that are sent to the client. */
export function appendResponse(stream: string, expected: Expected, answer: AppendAnswer): InstanceType<typeof AppendResp> {
  if (answer.kind === 'deleted') throw deleted(stream);
  if (answer.kind === 'too_big') throw tooBig();
  const response = new AppendResp();
  if (answer.kind === 'wrong_version') {
    const wrong = new AppendResp.WrongExpectedVersion();
    if (answer.actual < 0) wrong.setCurrentNoStream(new shared.Empty());
    else wrong.setCurrentRevision(String(answer.actual));
    if (typeof expected === 'number') wrong.setExpectedRevision(String(expected));
    else if (expected === 'no_stream') wrong.setExpectedNoStream(new shared.Empty());
    else wrong.setExpectedStreamExists(new shared.Empty());
    response.setWrongExpectedVersion(wrong);
    return response;
  }
  const success = new AppendResp.Success();
  success.setCurrentRevision(String(answer.revision));
  if (answer.position === null) success.setNoPosition(new shared.Empty());
  else {
    const position = new AppendResp.Position();
    position.setCommitPosition(String(answer.position));
    position.setPreparePosition(String(answer.position));
    success.setPosition(position);
  }
  response.setSuccess(success);
  return response;
}

export function eventResponse(record: LogRecord): ReadResponse {
  const recorded = new ReadResp.ReadEvent.RecordedEvent();
  const id = new shared.UUID();
  id.setString(record.id);
  const stream = new shared.StreamIdentifier();
  stream.setStreamName(Buffer.from(record.stream).toString('base64'));
  recorded.setId(id);
  recorded.setStreamIdentifier(stream);
  recorded.setStreamRevision(String(record.revision));
  recorded.setPreparePosition(String(record.position));
  recorded.setCommitPosition(String(record.position));
  recorded.getMetadataMap().set('type', record.type);
  recorded.getMetadataMap().set('content-type', record.contentType);
  recorded.getMetadataMap().set('created', String(BigInt(record.created) * 10_000n));
  recorded.setCustomMetadata(record.metadata);
  recorded.setData(record.data);
  const event = new ReadResp.ReadEvent();
  event.setEvent(recorded);
  event.setCommitPosition(String(record.position));
  const response = new ReadResp();
  response.setEvent(event);
  return response;
}

export function notFoundResponse(stream: string): ReadResponse {
  const identifier = new shared.StreamIdentifier();
  identifier.setStreamName(Buffer.from(stream).toString('base64'));
  const notFound = new ReadResp.StreamNotFound();
  notFound.setStreamIdentifier(identifier);
  const response = new ReadResp();
  response.setStreamNotFound(notFound);
  return response;
}

export function confirmationResponse(id: string): ReadResponse {
  const confirmation = new ReadResp.SubscriptionConfirmation();
  confirmation.setSubscriptionId(id);
  const response = new ReadResp();
  response.setConfirmation(confirmation);
  return response;
}

/** Makes a checkpoint. During a catch-up the server sends the position before the next event, with 0 as its second number. */
export function checkpointResponse(position: bigint, live: boolean): ReadResponse {
  const checkpoint = new ReadResp.Checkpoint();
  checkpoint.setCommitPosition(String(position));
  checkpoint.setPreparePosition(live ? String(position) : '0');
  const response = new ReadResp();
  response.setCheckpoint(checkpoint);
  return response;
}

export function caughtUpResponse(): ReadResponse {
  const response = new ReadResp();
  response.setCaughtUp(new ReadResp.CaughtUp());
  return response;
}
