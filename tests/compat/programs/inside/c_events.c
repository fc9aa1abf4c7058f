/* eventfd, epoll (level, edge, one-shot, nested), signalfd, poll: pending values stay pending. */
#include "probe.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

static int counter, semaphore, signals, outer, inner, ends[2];

static void watch(int set, int fd, uint32_t events, uint64_t tag) {
    struct epoll_event event = {.events = events, .data.u64 = tag};
    MUST(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void setup(void) {
    sigset_t held;
    counter = eventfd(5, EFD_NONBLOCK);
    semaphore = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK);
    sigemptyset(&held);
    sigaddset(&held, SIGUSR1);
    MUST(!sigprocmask(SIG_BLOCK, &held, NULL));
    signals = signalfd(-1, &held, SFD_NONBLOCK);
    MUST(!pipe2(ends, O_NONBLOCK));
    outer = epoll_create1(EPOLL_CLOEXEC);
    inner = epoll_create1(EPOLL_CLOEXEC);
    watch(inner, semaphore, EPOLLIN, 100);
    watch(outer, inner, EPOLLIN, 1);
    watch(outer, signals, EPOLLIN, 2);
    watch(outer, ends[0], EPOLLIN | EPOLLET, 3);
    watch(outer, counter, EPOLLIN | EPOLLONESHOT, 4);
    MUST(write(ends[1], "first", 5) == 5);
    MUST(!kill(getpid(), SIGUSR1));
}

static void step(void) {
    struct epoll_event found[8];
    uint64_t value, one = 1, five = 5;
    char text[16];
    unsigned seen = 0;
    int count;
    /* Values left pending by the previous round. */
    while ((count = epoll_wait(outer, found, 8, 0)) > 0) {
        unsigned before = seen;
        for (int n = 0; n < count; n++) seen |= 1u << found[n].data.u64;
        if (seen == before) break;
    }
    EXPECT((seen & 2) && (seen & 4));
    EXPECT((seen & 8) && (seen & 16));
    struct signalfd_siginfo info;
    EXPECT(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    EXPECT(read(counter, &value, sizeof value) == sizeof value && value == 5);
    EXPECT(read(semaphore, &value, sizeof value) == sizeof value && value == 1);
    EXPECT(epoll_wait(inner, found, 8, 0) == 1 && found[0].data.u64 == 100);
    EXPECT(read(ends[0], text, sizeof text) == 5 && !memcmp(text, "first", 5));
    struct pollfd poll_set = {.fd = ends[0], .events = POLLIN};
    EXPECT(poll(&poll_set, 1, 0) == 0);
    /* Left pending for the next round. */
    struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 4};
    EXPECT(!epoll_ctl(outer, EPOLL_CTL_MOD, counter, &again));
    EXPECT(write(counter, &five, sizeof five) == sizeof five);
    EXPECT(write(semaphore, &one, sizeof one) == sizeof one);
    EXPECT(write(ends[1], "first", 5) == 5);
    EXPECT(!kill(getpid(), SIGUSR1));
}
