/* Writes down what a shell holds: variables, functions, aliases, directory, umask. Part of bash_marks.c.
 *
 * The file `state` has records of five fields, each ended by NUL, which no value in bash contains:
 *
 *     kind  name  attributes  size:digest  =value
 *
 * The kinds: `v` variable, `f` function, `l` alias, `c` directory, `u` umask. The first record is `holdfast`
 * with the format and the pid, the last `end` with the number of records in between, and with the attribute
 * `cut` if there was more than the file may hold. The value is left out
 * (an empty field, without the equals sign) where it is long and no program would get it; then the digest
 * tells whether it changed. The file is replaced as a whole, and only if something in it is different.
 *
 * It runs at the end of every command, so it must be quick: it reads bash's own tables, and what it does not
 * expect to change it does not print. runtime/guest/shells/shell_state.py reads the file.
 */
#include <inttypes.h>
#include <stddef.h>

#define STATE_SHORT 256            /* of a longer value only the digest is written, unless it is exported */
#define STATE_EXPORTED (64 * 1024) /* the longest value of the environment that is written */
#define STATE_LIMIT (1 << 20)      /* of the whole file */
#define STATE_WHOLE (1 << 20)      /* a longer value is digested in samples: 1 MiB takes 0.1 ms */
#define STATE_ELEMENTS 20000       /* of an array, that are read */
#define STATE_FUNCTIONS 16         /* this many are printed every time; of more only those that seem changed */
#define STATE_KEPT (256 * 1024)    /* a larger buffer is given back */

/* The layout of bash 5.1 to 5.3: variables.h, array.h, hashlib.h, alias.h, command.h of Debian's bash-builtins. */
struct shell_array {
    intmax_t max_index, count;
    struct array_element *head, *last;
};
struct old_shell_array { /* before 5.2 */
    int kind;
    struct shell_array rest;
};
struct array_element {
    intmax_t index;
    char *value;
    struct array_element *next, *previous;
};
struct hash_entry {
    struct hash_entry *next;
    char *key;
    void *data;
    unsigned hash;
    int found;
};
struct hash_table {
    struct hash_entry **buckets;
    int bucket_count, count;
};
struct command {
    int type, flags, line;
    void *redirects;
    void **inner; /* of the group that a function's body is: another line, and the command in it */
};
struct shell_variable {
    char *name, *value, *exported;
    void *dynamic, *assign;
    int attributes, context;
};
struct shell_alias {
    char *name, *value;
    char flags;
};
enum {
    IS_EXPORTED = 0x1,
    IS_READONLY = 0x2,
    IS_ARRAY = 0x4,
    IS_ASSOC = 0x40,
    IS_NAMEREF = 0x800,
    IS_INVISIBLE = 0x1000,
};
static const struct {
    int bit;
    char letter;
} state_letters[] = {{IS_EXPORTED, 'x'}, {IS_READONLY, 'r'}, {IS_ARRAY, 'a'}, {0x10, 'i'},       {IS_ASSOC, 'A'},
                     {0x100, 'u'},       {0x200, 'l'},       {0x400, 'c'},    {IS_NAMEREF, 'n'}, {0x80, 't'}};
/* Variables that the session itself sets: they differ in every copy without anyone having changed them. */
static const char *const state_ours[] = {"HOLDFAST_SESSION", "HOLDFAST_NAME", "HOLDFAST_GENERATION", "HOLDFAST_IDENTITY"};

extern struct shell_variable **all_shell_variables(void), **all_shell_functions(void);
extern struct shell_alias **all_aliases(void);
extern char *named_function_string(char *, struct command *, int);
extern char *the_current_working_directory, *current_host_name;
extern const char *const dist_version; /* "5.2" */

struct state_function {
    struct shell_variable *variable;
    struct command *body;
    void *inner;
    int line;
    size_t size;
    uint64_t digest;
};

static char *state_text;
static size_t state_length, state_room, state_records;
static int state_cut, state_begun;
static uint64_t state_last;
static struct state_function *state_known;
static size_t state_known_count, state_turn;

/* Not cryptographic: it only has to distinguish a value from the one before. The multiplication is that of wyhash. */
static uint64_t state_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ 0x2d358dccaa6c78a5ULL) * (b ^ 0x8bb84b93962eacc9ULL);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t state_digest_part(const char *data, size_t size, uint64_t seed)
{
    uint64_t word[2];
    for (; size >= sizeof word; data += sizeof word, size -= sizeof word) {
        memcpy(word, data, sizeof word);
        seed = state_mix(word[0] ^ seed, word[1]);
    }
    memset(word, 0, sizeof word);
    memcpy(word, data, size);
    return state_mix(word[0] ^ seed, word[1] ^ (uint64_t)size << 56);
}

static uint64_t state_digest(const char *data, size_t size)
{
    uint64_t seed = size;
    if (size <= STATE_WHOLE)
        return state_digest_part(data, size, seed);
    for (size_t i = 0; i < 256; i++)
        seed = state_digest_part(data + (size - STATE_WHOLE / 256) / 255 * i, STATE_WHOLE / 256, seed);
    return state_digest_part(data + size - 4096, 4096, seed);
}

static int state_add(const char *data, size_t size)
{
    if (state_length + size + 2 > state_room) {
        size_t room = (state_length + size + 2) * 2;
        char *larger = realloc(state_text, room);
        if (!larger)
            return 0;
        state_text = larger;
        state_room = room;
    }
    memcpy(state_text + state_length, data, size);
    state_length += size;
    return 1;
}

static void state_record(const char *kind, const char *name, const char *attributes, size_t size, uint64_t digest,
                         const char *value)
{
    char middle[96];
    size_t before = state_length, length = value ? strlen(value) : 0;
    if (before + length > STATE_LIMIT) {
        state_cut = 1;
        value = NULL;
    }
    if (before > STATE_LIMIT)
        return;
    int n = snprintf(middle, sizeof middle, "%s%c%zu:%016" PRIx64, attributes, 0, size, digest);
    if (state_add(kind, strlen(kind) + 1) && state_add(name, strlen(name) + 1) && state_add(middle, n + 1) &&
        state_add("=", value ? 1 : 0) && state_add(value ? value : "", value ? length + 1 : 1))
        state_records++;
    else
        state_length = before;
}

/* Variables that change on their own, or that bash computes when they are read, are not state. */
static int state_passes_over(const struct shell_variable *variable)
{
    const char *name = variable->name;
    if (variable->dynamic || variable->attributes & IS_INVISIBLE || !variable->value)
        return 1;
    if (name[0] == '_' && !name[1])
        return 1;
    if (strcmp(name, "OLDPWD") == 0 || strcmp(name, "PIPESTATUS") == 0)
        return 1;
    for (size_t i = 0; i < sizeof state_ours / sizeof *state_ours; i++)
        if (strcmp(name, state_ours[i]) == 0)
            return 1;
    if (strcmp(name, "HOSTNAME") == 0 && current_host_name && strcmp(variable->value, current_host_name) == 0)
        return 1;
    if (variable->attributes & IS_EXPORTED)
        return 0;
    return strncmp(name, "BASH_", 5) == 0 || strcmp(name, "COLUMNS") == 0 || strcmp(name, "LINES") == 0;
}

static void state_attributes(int attributes, char *letters)
{
    for (size_t i = 0; i < sizeof state_letters / sizeof *state_letters; i++)
        if (attributes & state_letters[i].bit)
            *letters++ = state_letters[i].letter;
    *letters = '\0';
}

static const struct shell_array *state_array_of(const struct shell_variable *variable)
{
    int old = strncmp(dist_version, "5.1", 3) == 0;
    return old ? &((const struct old_shell_array *)(const void *)variable->value)->rest : (void *)variable->value;
}

static uint64_t state_array(const struct shell_array *array)
{
    uint64_t digest = array->max_index;
    int seen = 0;
    for (struct array_element *one = array->head->next; one != array->head && seen++ < STATE_ELEMENTS;
         one = one->next) {
        const char *value = one->value ? one->value : "";
        digest = state_mix(digest ^ one->index, state_digest(value, strlen(value)));
    }
    return digest;
}

/* The order in a hash table changes when it grows, so the sum must not depend on it. */
static uint64_t state_assoc(const struct hash_table *table)
{
    uint64_t digest = 0;
    int seen = 0;
    for (int i = 0; table->count && i < table->bucket_count && seen < STATE_ELEMENTS; i++)
        for (struct hash_entry *one = table->buckets[i]; one; one = one->next, seen++) {
            const char *value = one->data ? one->data : "";
            digest += state_mix(state_digest(one->key, strlen(one->key)), state_digest(value, strlen(value)));
        }
    return digest;
}

static void state_variables(void)
{
    char letters[16];
    struct shell_variable **all = all_shell_variables();
    for (size_t i = 0; all && all[i]; i++) {
        const struct shell_variable *one = all[i];
        if (state_passes_over(one))
            continue;
        state_attributes(one->attributes, letters);
        if (one->attributes & IS_ARRAY) {
            const struct shell_array *array = state_array_of(one);
            state_record("v", one->name, letters, array->count, state_array(array), NULL);
        } else if (one->attributes & IS_ASSOC) {
            const struct hash_table *table = (void *)one->value;
            state_record("v", one->name, letters, table->count, state_assoc(table), NULL);
        } else {
            size_t size = strlen(one->value);
            int told = size <= (one->attributes & IS_EXPORTED ? STATE_EXPORTED : STATE_SHORT);
            state_record("v", one->name, letters, size, state_digest(one->value, size), told ? one->value : NULL);
        }
    }
    free(all);
}

/* To print a function takes microseconds, and some shells have hundreds (completions). Where there are many,
 * one at the same address is not printed again, except some in turn: the address may have been reused. */
static void state_functions(void)
{
    char letters[16];
    struct shell_variable **all = all_shell_functions();
    struct state_function *now = NULL;
    size_t count = 0, at = 0;
    while (all && all[count])
        count++;
    if (count && !(now = calloc(count, sizeof *now)))
        count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct shell_variable *one = all[i];
        struct command *body = (void *)one->value;
        const char *text = NULL;
        size_t found = at;
        if (!body)
            continue;
        now[i] = (struct state_function){all[i], body, body->inner ? body->inner[0] : NULL, body->line, 0, 0};
        while (found < state_known_count && state_known[found].variable != one)
            found++;
        if (found < state_known_count) {
            const struct state_function *old = &state_known[found];
            at = found + 1;
            if (count > STATE_FUNCTIONS && i / 4 != state_turn && old->body == body && old->inner == now[i].inner &&
                old->line == body->line) {
                now[i].size = old->size;
                now[i].digest = old->digest;
            }
        }
        if (!now[i].size || one->attributes & IS_EXPORTED) {
            text = named_function_string(NULL, body, 0); /* in a buffer of bash's own */
            now[i].size = strlen(text);
            now[i].digest = state_digest(text, now[i].size);
        }
        state_attributes(one->attributes & IS_EXPORTED, letters);
        state_record("f", one->name, letters, now[i].size, now[i].digest,
                     *letters && now[i].size <= STATE_EXPORTED ? text : NULL);
    }
    free(all);
    free(state_known);
    state_known = now;
    state_known_count = count;
    state_turn = state_turn + 1 < (count + 3) / 4 ? state_turn + 1 : 0;
}

static void state_aliases(void)
{
    struct shell_alias **all = all_aliases();
    for (size_t i = 0; all && all[i]; i++) {
        size_t size = strlen(all[i]->value);
        state_record("l", all[i]->name, "", size, state_digest(all[i]->value, size),
                     size <= STATE_SHORT ? all[i]->value : NULL);
    }
    free(all);
}

static void state_collect(void)
{
    char text[32];
    mode_t mask = umask(0);
    umask(mask);
    state_length = state_records = 0;
    state_cut = 0;
    snprintf(text, sizeof text, "%ld", (long)getpid());
    state_record("holdfast", "1", "", 0, 0, text);
    if (the_current_working_directory)
        state_record("c", "", "", 0, 0, the_current_working_directory);
    snprintf(text, sizeof text, "%04o", (unsigned)mask);
    state_record("u", "", "", 0, 0, text);
    state_variables();
    state_functions();
    state_aliases();
}

static int state_save(const char *folder, const char *name)
{
    char path[4200], new_path[4200];
    size_t done = 0;
    ssize_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(new_path, sizeof new_path, "%s/state.new", folder);
    unlink(new_path);
    int fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return 0;
    while (done < state_length && ((n = write(fd, state_text + done, state_length - done)) > 0 || errno == EINTR))
        done += n > 0 ? n : 0;
    close(fd);
    if (done < state_length || rename(new_path, path) < 0) {
        unlink(new_path);
        return 0;
    }
    return 1;
}

/* Brings the file in the folder up to date. */
static void state_tell(const char *folder)
{
    int keep = errno;
    char count[24];
    state_collect();
    snprintf(count, sizeof count, "%zu", state_records - 1);
    uint64_t digest = state_digest_part(state_text, state_length, state_cut) | 1; /* never 0: that is no state */
    if (digest != state_last) {
        state_add("end", 4);
        state_add(count, strlen(count) + 1);
        state_add(state_cut ? "cut\0000:0\0" : "\0000:0\0", state_cut ? 9 : 6);
        if (!state_begun) /* the first state stays beside it: a late reader finds what changed since */
            state_begun = state_save(folder, "state.first");
        state_last = state_save(folder, "state") ? digest : 0;
    }
    if (state_room > STATE_KEPT) {
        free(state_text);
        state_text = NULL;
        state_room = 0;
    }
    errno = keep;
}
