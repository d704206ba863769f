/** The settings of computers. */
export class ComputerSettings {
  /**
   * The image of computers: a name, or the path of a tar of it (`docker save`), which begins with `/` or `.`.
   * @default made by the engine
   */
  computerImage: string | null;
  /**
   * The MiB that all computers together may take while they are awake or frozen. One account may take half.
   * @default three quarters of the memory of the service's machine
   */
  computersMemoryMaxMb: number;
  /** The half of that amount, which the computers of one account may use. One computer is always allowed. */
  computersMemoryPerAccountMb: number;
  /** The origins, besides the service's own, whose pages may show the page of a viewer in a frame, such as `https://app.example.com`. */
  viewerFrameAncestors: string[];
}
