/* A loadable bash builtin that reports to the supervisor, exactly, where commands begin and end.
 *
 * It writes marks (OSC 133, as terminals know them) to the shell's terminal from inside readline and the
 * shell's reader, so nothing a user sets (PS0, PS1, PROMPT_COMMAND, traps) can break them, and it feeds
 * the shell commands that the supervisor left in a file, as if they had been typed.
 *
 *     A prompt begins   B prompt is ready   C a line was accepted   E our command has run
 *     D the next prompt comes after a command   S the shell waits for the rest of a command
 *
 * Before E and D the shell's state is written down (bash_state.h), so that a reader that learns of the end of
 * a command finds what it changed.
 *
 * Before a command runs, and when it has, the shell checks whether its session has become another (bash_self.h).
 *
 * Every mark carries the nonce of the shell and a number that only grows, so that recorded output,
 * shown again, holds no marks. C carries the time, as the supervisor may read it when the command is long at work. It is silent in every process but the one named in the file `pid`.
 *
 * What it knows of bash is declared here: bash exports these symbols (5.1 to 5.3), and has no header for most of
 * them. It is loaded into the bash of any image, so it needs no symbol of the C library younger than glibc 2.17, and
 * is linked so that a symbol that is missing is found when it is loaded (-z now). The file names are those of
 * runtime/guest/layout.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "bash_state.h"

#include "bash_self.h"

#define DEFAULT_FOLDER "/var/lib/holdfast/shells/main/control"
/* Unused function keys: a program that gets one by accident ignores it. Each takes what is in a file of its
 * own, so that the key of an offer that was withdrawn does not take the next one, whose key is still to come. */
#define TAKE_FIRST_KEY "\033[9517~"
#define TAKE_FIRST "command-7"
#define TAKE_SECOND_KEY "\033[9518~"
#define TAKE_SECOND "command-8"
#define STATE_DONE 0x2000000UL /* RL_STATE_DONE of readline 8 */
#define BUILTIN_ENABLED 0x01
#define ECHO_LINES 20
#define ECHO_BYTES 2048
/* bash joins the lines of a compound command by copying what it has: quadratic; long ones are not kept. */
#define HISTORY_BYTES (64 * 1024)
#define MAX_TYPED (64 * 1024)
#define MAX_COMMAND (8 << 20)

struct word_list;
struct builtin {
    const char *name;
    int (*function)(struct word_list *);
    int flags;
    const char *const *long_doc;
    const char *short_doc;
    char *handle;
};
struct word_desc {
    char *word;
    int flags;
};
struct word_list {
    struct word_list *next;
    struct word_desc *word;
};
struct bash_input {
    int type;
    char *name;
    void *location;
    int (*getter)(void);
    int (*ungetter)(int);
};
enum { INPUT_STDIN = 1 };

extern struct bash_input bash_input;
extern volatile sig_atomic_t interrupt_state;
extern int volatile _rl_caught_signal;
extern int executing_builtin, last_command_exit_value, shell_tty, current_command_line_count;
extern int exit_immediately_on_error;
extern void stop_making_children(void) __attribute__((weak));
extern int (*this_shell_builtin)(struct word_list *), exit_builtin(struct word_list *), logout_builtin(struct word_list *);
extern int history_expansion_inhibited, remember_on_history;
extern char *ps0_prompt, *ps1_prompt, *ps2_prompt, *current_prompt_string;

extern int (*rl_startup_hook)(void), (*rl_pre_input_hook)(void);
extern void (*rl_prep_term_function)(int), (*rl_deprep_term_function)(void), (*rl_redisplay_function)(void);
extern int rl_done, rl_point, rl_end;
extern char *rl_line_buffer;
extern unsigned long rl_readline_state;
extern FILE *rl_outstream;
extern char emacs_standard_keymap[], vi_insertion_keymap[], vi_movement_keymap[];
extern int rl_add_defun(const char *, int (*)(int, int), int);
extern int rl_bind_keyseq_in_map(const char *, int (*)(int, int), void *);
extern int (*rl_function_of_keyseq(const char *, void *, int *))(int, int);
extern void rl_replace_line(const char *, int);

static char folder[4096], nonce[80];
static uint64_t number;
static pid_t owner;
static int loaded, pending_end = 1, first_prompt = 1, announced, continued, in_prompt;

/* The command being fed: what is left of it in the shell's reader, and what to put back afterwards. */
static long left;
static unsigned long serial;
static int fed, fresh, line_start, saved_inhibited, saved_remember, unremembered;

static int (*old_startup)(void), (*old_pre_input)(void), (*old_getter)(void), (*old_ungetter)(int);
static void (*old_prep)(int), (*old_deprep)(void);

static int active(void)
{
    return owner == getpid() && !executing_builtin;
}

/* Whether the shell is about to read the first line of a command. Without PS2 the prompts look alike. */
static int at_primary(void)
{
    if (ps1_prompt == ps2_prompt)
        return current_command_line_count == 0;
    return current_prompt_string != ps2_prompt;
}

static char *path_of(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static char *slurp(const char *name, size_t *length)
{
    char path[4200], *text = NULL;
    size_t got = 0;
    int fd = open(path_of(name, path, sizeof path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    off_t size = lseek(fd, 0, SEEK_END); /* not fstat, which would need a C library as new as ours */
    if (size >= 0 && size <= MAX_COMMAND && lseek(fd, 0, SEEK_SET) == 0 && (text = malloc(size + 2))) {
        ssize_t n;
        while (got < (size_t)size && (n = read(fd, text + got, size - got)) > 0)
            got += n;
        text[got] = '\0';
    }
    close(fd);
    if (length)
        *length = got;
    return text;
}

static void put(const char *data, size_t size)
{
    int keep = errno;
    while (size > 0) {
        ssize_t n = write(shell_tty, data, size);
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0) {
            data += n;
            size -= n;
        }
    }
    errno = keep;
}

/* One write, under the size a terminal takes at once: a background job's output cannot cut a mark. */
static void mark(char kind, int status, unsigned long x)
{
    char text[256], value[16] = "", tail[32] = "", moment[32] = "";
    if (status >= 0)
        snprintf(value, sizeof value, ";%d", status);
    if (x)
        snprintf(tail, sizeof tail, ";x=%lu", x);
    struct timespec now;
    if (kind == 'C' && clock_gettime(CLOCK_REALTIME, &now) == 0)
        snprintf(moment, sizeof moment, ";t=%lld", now.tv_sec * 1000000LL + now.tv_nsec / 1000);
    int n = snprintf(text, sizeof text, "\033]133;%c%s;hf=%s;n=%llu%s%s\a", kind, value, nonce,
                     (unsigned long long)number++, tail, moment);
    fflush(stdout);
    if (rl_outstream)
        fflush(rl_outstream);
    put(text, n);
}

static void settle(void)
{
    if (!fed)
        return;
    fed = fresh = 0;
    left = 0;
    history_expansion_inhibited = saved_inhibited;
    if (unremembered)
        remember_on_history = saved_remember;
    unremembered = 0;
}

/* The reader's character source, while a command of ours is in it. A newline of our own follows the
 * command: the shell asks for it after everything has run, and before PROMPT_COMMAND does. */
static int get_character(void)
{
    if (fresh) { /* the caller of readline got the first character */
        fresh = 0;
        left--;
    }
    /* An interrupted `select` leaves bash (5.2) believing forever that a builtin runs. None asks for input here. */
    if (left <= 1 && owner == getpid()) {
        executing_builtin = 0;
        /* A fork that fails leaves bash believing that it makes a pipeline: the next builtin would wait for the
         * newest child, however long that runs. */
        if (stop_making_children)
            stop_making_children();
    }
    if (left > 1) {
        char path[4200];
        if (line_start && access(path_of("abort", path, sizeof path), F_OK) == 0) {
            unlink(path);
            while (left > 1) {
                old_getter();
                left--;
            }
        }
        if (left > 1) {
            int c = old_getter();
            left--;
            line_start = c == '\n';
            ps0_prompt = NULL; /* prompts are for people who type */
            return c;
        }
    }
    if (left == 1) {
        if (active() && at_primary()) {
            pending_end = 0;
            settle();
            self_look();
            state_tell(folder);
            mark('E', last_command_exit_value & 255, serial);
        }
        left = 0;
        return old_getter();
    }
    return old_getter(); /* calls readline, which may take a command */
}

static int unget_character(int c)
{
    if (left > 0)
        left++;
    return old_ungetter(c);
}

/* bash sets up its reader again now and then; the getter is ours again whenever readline runs. */
static void wrap_reader(void)
{
    if (bash_input.type != INPUT_STDIN || bash_input.getter == get_character)
        return;
    old_getter = bash_input.getter;
    old_ungetter = bash_input.ungetter;
    bash_input.getter = get_character;
    bash_input.ungetter = unget_character;
}

static void announce(void)
{
    if (announced)
        return;
    announced = 1;
    settle();
    wrap_reader();
    if (at_primary())
        mark('A', last_command_exit_value & 255, 0); /* should the terminal have lost E and D: Ctrl-C drops output */
    else
        mark('S', -1, 0);
}

static void prep(int meta)
{
    if (active() && !at_primary()) { /* before readline writes how it wants the terminal: that is not output */
        announced = 0;
        announce();
        continued = 1;
    } else if (active() && pending_end) {
        pending_end = 0;
        state_tell(folder);
        mark('D', first_prompt ? 0 : last_command_exit_value & 255, 0);
        first_prompt = 0;
    }
    if (old_prep)
        old_prep(meta);
}

static int startup(void)
{
    if (!continued)
        announced = 0;
    continued = 0;
    if (active())
        announce();
    return old_startup ? old_startup() : 0;
}

static int take_first(int, int), take_second(int, int);

static void bind_key(void)
{
    char *maps[] = {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        if (rl_function_of_keyseq(TAKE_FIRST_KEY, maps[i], NULL) != take_first)
            rl_bind_keyseq_in_map(TAKE_FIRST_KEY, take_first, maps[i]);
        if (rl_function_of_keyseq(TAKE_SECOND_KEY, maps[i], NULL) != take_second)
            rl_bind_keyseq_in_map(TAKE_SECOND_KEY, take_second, maps[i]);
    }
}

static int pre_input(void)
{
    if (active()) {
        announce(); /* operate-and-get-next takes the startup hook for itself */
        if (at_primary()) {
            bind_key(); /* `bind` may have taken it away */
            in_prompt = 1;
            mark('B', last_command_exit_value & 255, 0);
        }
    }
    return old_pre_input ? old_pre_input() : 0;
}

/* What a person typed, for the journal: the mark that follows names the file by its number. */
static void leave_line(void)
{
    char name[40], path[4200];
    size_t length = rl_line_buffer ? strlen(rl_line_buffer) : 0;
    int keep = errno;
    snprintf(name, sizeof name, "typed-%llu", (unsigned long long)number);
    int fd = open(path_of(name, path, sizeof path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (write(fd, rl_line_buffer, length < MAX_TYPED ? length : MAX_TYPED) < 0)
            unlink(path);
        close(fd);
    }
    errno = keep;
}

static void deprep(void)
{
    if (old_deprep)
        old_deprep();
    if (rl_done && in_prompt && active()) {
        in_prompt = 0;
        announced = 0;
        pending_end = 1;
        if (!fed)
            leave_line();
        self_look();
        mark('C', -1, fed ? serial : 0);
    }
}

/* Shows the first lines of the command where a person would have typed it. */
static void show(const char *text, size_t length)
{
    char out[ECHO_BYTES + 64];
    size_t n = 0, i;
    int lines = 0;
    while (length > 0 && text[length - 1] == '\n')
        length--;
    for (i = 0; i < length && n < ECHO_BYTES && lines < ECHO_LINES; i++) {
        unsigned char c = text[i];
        if (c == '\n')
            lines++;
        out[n++] = (c >= 32 && c != 127) || c == '\n' || c == '\t' ? c : '?';
    }
    if (i < length)
        n += snprintf(out + n, 64, "%s... (%zu more bytes)", n && out[n - 1] == '\n' ? "" : "\n", length - i);
    out[n++] = '\n';
    put(out, n);
}

static int take_command(const char *name)
{
    char path[4200], *text, *body;
    size_t length;
    if (!active() || !in_prompt || !(text = slurp(name, &length)))
        return 0;
    if (unlink(path_of(name, path, sizeof path)) < 0) {
        free(text); /* it was withdrawn just now */
        return 0;
    }
    serial = strtoul(text, &body, 10);
    if (*body == '\n')
        body++;
    length -= body - text;

    int typed = rl_end > 0;
    rl_replace_line("", 1);
    if (typed)
        rl_redisplay_function();
    if (rl_outstream)
        fflush(rl_outstream);
    show(body, length);

    body[length++] = '\n';
    body[length] = '\0';
    rl_replace_line(body, 1);
    free(text);
    rl_point = rl_end;
    rl_done = 1;
    rl_readline_state |= STATE_DONE;

    /* An interrupt from before is for what ran before; left pending, it would cut the first letter off. */
    interrupt_state = 0;
    _rl_caught_signal = 0;
    line_start = 0;
    left = length + 1;
    fed = fresh = 1;
    saved_inhibited = history_expansion_inhibited;
    history_expansion_inhibited = 1; /* "!" is text in a program's command */
    if (length > HISTORY_BYTES) {
        saved_remember = remember_on_history;
        remember_on_history = 0;
        unremembered = 1;
    }
    return 0;
}

static int take_first(int count, int key)
{
    (void)count, (void)key;
    return take_command(TAKE_FIRST);
}

static int take_second(int count, int key)
{
    (void)count, (void)key;
    return take_command(TAKE_SECOND);
}

/* Numbers continue where those of the program that had this pid before, by `exec bash`, ended. */
static void next_epoch(void)
{
    char path[4200], text[24];
    char *old = slurp("epoch", NULL);
    unsigned long epoch = (old ? strtoul(old, NULL, 10) : 0) + 1;
    free(old);
    int n = snprintf(text, sizeof text, "%lu\n", epoch);
    int fd = open(path_of("epoch", path, sizeof path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (write(fd, text, n) != n)
            epoch++;
        close(fd);
    }
    number = (uint64_t)epoch << 32;
}

/* Leaves a note that `set -e` ended the shell: no one asked for that by name, and the exit code does not say it. */
static void last_words(void)
{
    char path[4200];
    if (owner != getpid() || !exit_immediately_on_error || !last_command_exit_value ||
        this_shell_builtin == exit_builtin || this_shell_builtin == logout_builtin)
        return;
    int fd = open(path_of("ended", path, sizeof path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (write(fd, "errexit\n", 8) < 0)
            unlink(path);
        close(fd);
    }
}

static void load(const char *where)
{
    char *text;
    snprintf(folder, sizeof folder, "%s", where);
    if (!(text = slurp("pid", NULL)))
        return;
    owner = strtol(text, NULL, 10);
    free(text);
    if (owner != getpid() || loaded)
        return;
    if (!(text = slurp("nonce", NULL)))
        return;
    snprintf(nonce, sizeof nonce, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    next_epoch();
    self_begin();
    atexit(last_words);
    loaded = 1;

    old_startup = rl_startup_hook;
    old_pre_input = rl_pre_input_hook;
    old_prep = rl_prep_term_function;
    old_deprep = rl_deprep_term_function;
    rl_startup_hook = startup;
    rl_pre_input_hook = pre_input;
    rl_prep_term_function = prep;
    rl_deprep_term_function = deprep;
    rl_add_defun("holdfast-take-command", take_first, -1);
    rl_add_defun("holdfast-take-next-command", take_second, -1);
    bind_key();
}

int holdfast_marks_builtin_load(char *name)
{
    (void)name;
    load(DEFAULT_FOLDER);
    return 1;
}

/* The hooks stay: bash keeps the library of a builtin that it still calls into. */
static int holdfast_marks_builtin(struct word_list *list)
{
    load(list ? list->word->word : DEFAULT_FOLDER);
    return 0;
}

static const char *const holdfast_marks_doc[] = {
    "Tell the session's supervisor where commands begin and end.",
    "",
    "FOLDER is where the supervisor keeps the state of this shell.",
    NULL,
};

struct builtin holdfast_marks_struct = {
    "holdfast_marks", holdfast_marks_builtin, BUILTIN_ENABLED, holdfast_marks_doc, "holdfast_marks [folder]", NULL,
};
