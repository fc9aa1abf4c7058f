/* Threads: mutexes, condition variables, barriers, thread-local storage, robust and shared locks, thread names. */
#include "probe.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { THREADS = 8 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t gate;
static long generation, finished;
static __thread long mine;
static pid_t ids[THREADS];
static struct { pthread_mutex_t lock; long count; } *shared;

static void *work(void *argument) {
    long number = (long)argument;
    char name[16], found[16];
    snprintf(name, sizeof name, "worker-%ld", number);
    prctl(PR_SET_NAME, name);
    ids[number] = syscall(SYS_gettid);
    pthread_barrier_wait(&gate);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (generation == mine) pthread_cond_wait(&changed, &lock);
        mine++;
        if (mine != generation) FAULT("thread %ld lost its own count", number);
        prctl(PR_GET_NAME, found);
        if (strcmp(found, name)) FAULT("thread %ld is now called %s", number, found);
        if (ids[number] != syscall(SYS_gettid)) FAULT("thread %ld has another id", number);
        finished++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void setup(void) {
    pthread_mutexattr_t attributes;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->lock, &attributes);
    if (fork() == 0) {
        for (;;) {
            pthread_mutex_lock(&shared->lock);
            shared->count++;
            pthread_mutex_unlock(&shared->lock);
            rest_ms(2);
        }
    }
    pthread_barrier_init(&gate, NULL, THREADS + 1);
    for (long n = 0; n < THREADS; n++) {
        pthread_t thread;
        MUST(!pthread_create(&thread, NULL, work, (void *)n));
    }
    pthread_barrier_wait(&gate);
}

static void step(void) {
    long before, tries = 0;
    pthread_mutex_lock(&lock);
    finished = 0;
    generation++;
    pthread_cond_broadcast(&changed);
    while (finished < THREADS) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    EXPECT(!pthread_mutex_lock(&shared->lock));
    before = shared->count;
    pthread_mutex_unlock(&shared->lock);
    while (shared->count == before && tries++ < 10000) rest_ms(1);
    EXPECT(shared->count > before);
}
