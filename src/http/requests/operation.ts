import { SetMetadata } from '@nestjs/common';

export const OPERATION = 'mooring:operation';

/** The suffix of an operation's name on the REST API, if the Provisioning API has the same operation. */
export const REST_SUFFIX = 'Rest';

/**
 * Names the operation of a route in the OpenAPI document, and so the tool that a model calls: a verb and a noun in camelCase. A route of
 * several paths has this name on the Provisioning API; on the REST API it gets the suffix.
 */
export const Operation = (name: string) => SetMetadata(OPERATION, name);
