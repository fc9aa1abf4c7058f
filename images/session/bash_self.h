/* Keeps a running shell's view of its session's identity current. Part of bash_marks.c.
 *
 * The supervisor writes the folder `identity` (runtime/guest/layout.py): `generation`, a number that differs in
 * every copy, and `variables`, records NAME=value ended by NUL. Before the shell runs the next command it reads the
 * number; if it has changed, the shell takes the variables it still exports, the name of the host, and a new seed.
 * While a session waits in a pool, the number is -1.
 *
 * $RANDOM comes from a seed in the memory of the shell, so copies would draw the same. The seed is renewed in a copy
 * at the next draw, also in subshells, which have no prompt. A user who has set the seed (RANDOM=42) wants its
 * sequence, and keeps it.
 */
#include <sys/syscall.h>
#include <time.h>

#define SELF_GENERATION "../../../identity/generation"
#define SELF_VARIABLES "../../../identity/variables"
#define SELF_NAME 64 /* the longest name of a host, sethostname(2) */

struct shell_variable;
typedef struct shell_variable *self_value(struct shell_variable *);
typedef struct shell_variable *self_assign(struct shell_variable *, char *, intmax_t, char *);

extern struct shell_variable *find_variable(const char *), *bind_variable(const char *, char *, int);
extern void sbrand(unsigned long);

static unsigned long self_known, self_drawn;
static int self_seeded;
static self_value *self_old_value;
static self_assign *self_old_assign;
static struct timespec self_looked;

static char *slurp(const char *, size_t *);

/* 0 is for one that cannot be read. */
static unsigned long self_generation(void)
{
    char *text = slurp(SELF_GENERATION, NULL);
    unsigned long number = text ? (unsigned long)strtol(text, NULL, 10) + 2 : 0;
    free(text);
    return number;
}

/* Only what is still a variable of the environment, so the user's changes stay. */
static void self_bind(const char *name, const char *value)
{
    struct shell_variable *variable = find_variable(name);
    char *copy;
    if (!variable || !(variable->attributes & IS_EXPORTED) || variable->attributes & (IS_READONLY | IS_NAMEREF) ||
        !(copy = strdup(value)))
        return;
    bind_variable(name, copy, 0);
    free(copy);
}

/* A name the user gave the shell stays; the one in the prompt (\h) is bash's own copy. */
static void self_host(void)
{
    char name[SELF_NAME + 1] = "", *copy;
    struct shell_variable *variable = find_variable("HOSTNAME");
    if (gethostname(name, SELF_NAME) < 0 || !*name)
        return;
    if (variable && variable->value && current_host_name && strcmp(variable->value, current_host_name) == 0)
        self_bind("HOSTNAME", name);
    if ((copy = strdup(name))) {
        free(current_host_name);
        current_host_name = copy;
    }
}

static void self_look(void)
{
    int keep = errno;
    unsigned long now = self_generation();
    if (now && now != self_known) {
        size_t length = 0;
        char *text = slurp(SELF_VARIABLES, &length), *equals;
        for (char *at = text; at && at < text + length; at += strlen(at) + 1)
            if ((equals = strchr(at, '='))) {
                *equals = '\0';
                self_bind(at, equals + 1);
                at = equals + 1;
            }
        free(text);
        self_host();
        self_known = now;
    }
    errno = keep;
}

/* A capture and restore take longer than the tick of this clock, which costs no system call. */
static struct shell_variable *self_draw(struct shell_variable *variable)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec != self_looked.tv_sec || now.tv_nsec != self_looked.tv_nsec) {
        unsigned long generation = self_generation(), seed;
        self_looked = now;
        if (generation && generation != self_drawn) {
            self_drawn = generation;
            if (!self_seeded && syscall(SYS_getrandom, &seed, sizeof seed, 0) == sizeof seed)
                sbrand(seed);
        }
    }
    return self_old_value(variable);
}

static struct shell_variable *self_seed(struct shell_variable *variable, char *value, intmax_t index, char *key)
{
    self_seeded = 1;
    return self_old_assign(variable, value, index, key);
}

static void self_begin(void)
{
    struct shell_variable *variable = find_variable("RANDOM");
    self_known = self_drawn = self_generation();
    if (variable && variable->dynamic && variable->assign) {
        self_old_value = (self_value *)variable->dynamic;
        self_old_assign = (self_assign *)variable->assign;
        variable->dynamic = (void *)self_draw;
        variable->assign = (void *)self_seed;
    }
}
