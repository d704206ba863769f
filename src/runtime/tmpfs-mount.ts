/** An in-memory folder, which is empty at each start. */
export interface TmpfsMount {
  path: string;
  /** The owner, and the group of the same number; by default the container's user and its group if those are numbers, or else root. */
  uid?: number;
  /** The mode, by default 1777. An image that already has the folder determines the mode itself. */
  mode?: number;
  /** The size limit, counted in the container's memory; by default all of that memory. */
  sizeBytes?: number;
  /** The value is true if programs in it may be executed; by default they may not. */
  exec?: boolean;
}
