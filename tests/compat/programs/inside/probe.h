/* A C program that works in rounds and notices on its own if its state has changed.
 *
 * setup() opens things; step() uses them all once and reports each surprise by FAULT("what").
 * The file "state" holds the number of rounds, of faults, and the first fault.
 */
#define _GNU_SOURCE
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

static long rounds, faults;
static char first_fault[200];

#define FAULT(...) (faults++ ? (void)0 : (void)snprintf(first_fault, sizeof first_fault, __VA_ARGS__))
#define EXPECT(condition) ((condition) ? (void)0 : FAULT("%s (%s) in round %ld", #condition, strerror(errno), rounds))
#define MUST(condition) \
    do { if (!(condition)) { perror(#condition); exit(1); } } while (0)

static void setup(void);
static void step(void);

static inline int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline void rest_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR) { }
}

int main(void) {
    setup();
    for (;;) {
        step();
        rounds++;
        FILE *state = fopen("new", "w");
        MUST(state);
        fprintf(state, "%ld %ld %s\n", rounds, faults, first_fault);
        fclose(state);
        MUST(!rename("new", "state"));
        rest_ms(10);
    }
}
