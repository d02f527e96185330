// Preact and htm, as every file here uses them.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { render, Fragment } from "../vendor/preact.js";
export { useState, useEffect, useRef, useMemo, useCallback } from "../vendor/hooks.js";
