/** A folder in memory, which is empty at each start. */
export interface TmpfsMount {
  path: string;
  /** The user whom it belongs to, and the group of the same number; by default the container's user and its group if those are numbers, or else root. */
  uid?: number;
  /** The mode, by default 1777, which an image that has the folder decides itself. */
  mode?: number;
  /** Its share of the container's memory; by default all of it. */
  sizeBytes?: number;
  /** True if programs in it may be run; by default they may not. */
  exec?: boolean;
}
