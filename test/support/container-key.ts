import { createSecretKey, type KeyObject } from 'node:crypto';

/** Returns the key by which all runtimes of a test's installation know its containers. */
export const testContainerKey = (instance: string): KeyObject => createSecretKey(instance, 'utf8');
