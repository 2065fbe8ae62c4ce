// The types of what the page takes from scripts of others, as far as it uses them.
declare module "preact" {
  export function html(strings: TemplateStringsArray, ...values: any[]): any;
  export function render(what: any, where: HTMLElement): void;
  export function useState<T>(first: T | (() => T)): [T, (next: T | ((last: T) => T)) => void];
  export function useEffect(work: () => void | (() => void), depends?: any[]): void;
  export function useLayoutEffect(work: () => void | (() => void), depends?: any[]): void;
  export function useRef<T>(first: T): { current: T };
  export function useMemo<T>(make: () => T, depends: any[]): T;
  export function useCallback<T>(call: T, depends: any[]): T;
  export function useErrorBoundary(note?: (problem: any) => void): [any, () => void];
}
declare const d3: any;
declare const Plot: any;
