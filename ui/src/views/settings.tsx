/** How the page looks, who is signed in, and (for admins) the tokens. */

import { useState } from "preact/hooks";
import { call, get, type LoginLink, type NewToken, type Project, type Token } from "../api";
import { CopyBlock } from "../parts/copy";
import { Dialog } from "../parts/dialog";
import { ProblemNote, say, Skeleton } from "../parts/notice";
import { PlainTable } from "../parts/plain-table";
import { asProblem, useLoad } from "../state/load";
import { now } from "../state/now";
import { logout, session } from "../state/session";
import { theme, type Theme } from "../state/theme";
import { ago, moment } from "../words";
import { NewTokenForm } from "./new-token";
import { Notices } from "./notices";
import { Projects } from "./projects";
import { Rules } from "./rules";
import "./settings.css";

const THEMES: [Theme, string][] = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export function SettingsView() {
  const who = session.value;
  return (
    <main class="settings">
      <h1>Settings</h1>
      <section>
        <h2>Appearance</h2>
        <div class="segments" role="group" aria-label="Theme">
          {THEMES.map(([name, label]) => (
            <button key={name} aria-pressed={theme.value === name} onClick={() => (theme.value = name)}>
              {label}
            </button>
          ))}
        </div>
      </section>
      {who && (
        <section>
          <h2>Session</h2>
          <p class="soft">
            Signed in as <b>{who.name}</b> ({who.kind}), {who.projects ? `for ${who.projects.join(", ")}` : "for all projects"}. Server {who.version}, up since {moment(who.started_at)}.
          </p>
          <div class="row wrap">
            <LinkForBrowser />
            <button onClick={() => void logout()}>Sign out</button>
          </div>
        </section>
      )}
      <Projects />
      <Rules />
      <Notices />
      {who?.kind === "admin" && <Tokens />}
    </main>
  );
}

function LinkForBrowser() {
  const [link, setLink] = useState<LoginLink | null>(null);
  const make = async () => {
    try {
      setLink(await call<LoginLink>("POST", "login-links"));
    } catch (error) {
      say(asProblem(error).message, true);
    }
  };
  return (
    <>
      <button onClick={() => void make()}>Link for another browser</button>
      {link && (
        <Dialog title="One-time link" onClose={() => setLink(null)}>
          <p class="soft">Signs one browser in, once, until {moment(link.expires_at)}.</p>
          <CopyBlock text={link.url} label="link" />
        </Dialog>
      )}
    </>
  );
}

function Tokens() {
  const { value: tokens, problem, reload } = useLoad("tokens", (signal) => get<Token[]>("tokens", { signal }));
  const { value: projects } = useLoad("projects", (signal) => get<Project[]>("projects", { signal }));
  const [made, setMade] = useState<Token | null>(null);
  const create = async (token: NewToken) => {
    setMade(await call<Token>("POST", "tokens", { body: token }));
    reload();
  };
  return (
    <section>
      <h2>Tokens</h2>
      <p class="soft">An ingest token only writes; a viewer only reads; an editor also changes runs; an admin does everything.</p>
      {problem && <ProblemNote problem={problem} retry={reload} />}
      {!tokens && !problem && <Skeleton lines={3} />}
      {tokens && <TokenTable tokens={tokens} reload={reload} />}
      <NewTokenForm projects={projects ?? []} create={create} />
      {made && (
        <Dialog title={`Token ${made.name}`} onClose={() => setMade(null)}>
          <p class="soft">This is the only time that the secret is shown.</p>
          <CopyBlock text={made.secret ?? ""} label="secret" />
        </Dialog>
      )}
    </section>
  );
}

/** The token of the data folder's file, which goes with that file alone. */
const LOCAL = "local";

function TokenTable({ tokens, reload }: { tokens: Token[]; reload(): void }) {
  const [leaving, leave] = useState<Token | null>(null);
  const remove = async (token: Token) => {
    leave(null);
    await call("DELETE", `tokens/${encodeURIComponent(token.id)}`).catch((error: unknown) => say(asProblem(error).message, true));
    reload();
  };
  return (
    <>
      <PlainTable label="Tokens" heads={["Name", "Kind", "Projects", "Created", "Last used", "Expires", ""]}>
        {tokens.map((token) => (
          <tr key={token.id}>
            <th scope="row">{token.name}</th>
            <td>{token.kind}</td>
            <td>{token.projects?.join(", ") ?? "all"}</td>
            <td title={moment(token.created_at)}>{ago(token.created_at, now.value)}</td>
            <td>{token.last_used_at ? ago(token.last_used_at, now.value) : "never"}</td>
            <td>{token.expires_at ? moment(token.expires_at) : "never"}</td>
            <td>
              {token.id !== LOCAL && (
                <button class="quiet danger" onClick={() => leave(token)}>
                  Delete
                </button>
              )}
            </td>
          </tr>
        ))}
      </PlainTable>
      {leaving && (
        <Dialog title={`Delete the token ${leaving.name}?`} onClose={() => leave(null)}>
          <p>Whoever uses it is refused from now on.</p>
          <div class="row">
            <button class="danger" onClick={() => void remove(leaving)}>
              Delete
            </button>
            <button onClick={() => leave(null)}>Keep</button>
          </div>
        </Dialog>
      )}
    </>
  );
}
