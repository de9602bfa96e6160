/** Start: styles, links, keys, then the app. */

import { render } from "preact";
import "./tokens.css";
import "./parts/bar.css";
import { App } from "./app";
import { listen } from "./keys";
import { followLinks } from "./state/place";

followLinks();
listen();
render(<App />, document.getElementById("app")!);
