// A question to the person, in a dialog of the page. It cannot be raised by what a session prints alone.

/** Ask, and return what was typed (empty if nothing was to be), or null if the person does not want it. */
export function ask(text: string, yes: string, typed?: { label: string; value: string }): Promise<string | null> {
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  form.method = "dialog";
  const said = document.createElement("p");
  said.textContent = text;
  form.append(said);
  const input = document.createElement("input");
  if (typed) {
    const label = document.createElement("label");
    label.textContent = typed.label;
    input.value = typed.value;
    input.spellcheck = false;
    label.append(input);
    form.append(label);
  }
  const buttons = document.createElement("menu");
  for (const [value, label] of [["", "Cancel"], ["yes", yes]] as const) {
    const button = document.createElement("button");
    button.value = value;
    button.textContent = label;
    if (value) {
      button.className = "primary";
      button.autofocus = !typed;
    } else {
      button.type = "button";
      button.onclick = () => dialog.close("");
    }
    buttons.append(button);
  }
  form.append(buttons);
  dialog.append(form);
  document.body.append(dialog);
  return new Promise((done) => {
    dialog.onclose = () => {
      dialog.remove();
      done(dialog.returnValue === "yes" ? input.value : null);
    };
    dialog.showModal();
  });
}
