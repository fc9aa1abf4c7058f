/* Memory of all kinds: memfd with seals, shared anonymous and file mappings, System V segments, locked pages. */
#include "probe.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { SIZE = 1 << 20 };
static int memory_fd, segment, semaphores;
static volatile long *by_memfd, *again, *anonymous, *of_file, *system_v;
static char *private_file, *locked;
static pid_t child;

static long *map(int fd, int flags) {
    long *found = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    MUST(found != MAP_FAILED);
    return found;
}

static void setup(void) {
    memory_fd = memfd_create("probe", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    MUST(memory_fd >= 0 && !ftruncate(memory_fd, SIZE));
    MUST(!fcntl(memory_fd, F_ADD_SEALS, F_SEAL_SHRINK));
    by_memfd = map(memory_fd, MAP_SHARED);
    again = map(memory_fd, MAP_SHARED);
    anonymous = map(-1, MAP_SHARED | MAP_ANONYMOUS);
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(file >= 0 && !ftruncate(file, SIZE));
    of_file = map(file, MAP_SHARED);
    private_file = (char *)map(file, MAP_PRIVATE);
    strcpy(private_file + 5000, "mine alone");
    locked = (char *)map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
    mlock(locked, 4096);
    memset(locked, 7, SIZE);
    MUST(!mprotect(locked + 8192, 4096, PROT_NONE));
    segment = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    MUST(segment >= 0);
    system_v = shmat(segment, NULL, 0);
    MUST(system_v != (void *)-1);
    semaphores = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    MUST(semaphores >= 0);
    MUST(!semctl(semaphores, 0, SETVAL, 1));
    /* Another user's, which not even root may read without a capability for it. */
    if (fork() == 0) {
        MUST(!setgid(65534) && !setuid(65534));
        volatile long *own = shmat(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600), NULL, 0);
        MUST(own != (void *)-1);
        for (;; rest_ms(50)) (*own)++;
    }
    child = fork();
    if (child == 0) {
        for (;;) {
            (*anonymous)++;
            (*system_v)++;
            rest_ms(2);
        }
    }
}

static void step(void) {
    EXPECT(*by_memfd == rounds);
    EXPECT(*of_file == rounds);
    *by_memfd = rounds + 1;
    EXPECT(*again == rounds + 1);
    long value = 0;
    EXPECT(pread(memory_fd, &value, sizeof value, 0) == sizeof value && value == rounds + 1);
    EXPECT(ftruncate(memory_fd, 4096) == -1 && errno == EPERM);
    EXPECT(fcntl(memory_fd, F_GET_SEALS) == F_SEAL_SHRINK);
    *of_file = rounds + 1;
    EXPECT(!strcmp(private_file + 5000, "mine alone"));
    EXPECT(locked[SIZE - 1] == 7);
    long a = *anonymous, s = *system_v, tries = 0;
    while ((*anonymous == a || *system_v == s) && tries++ < 10000) rest_ms(1);
    EXPECT(*anonymous > a);
    EXPECT(*system_v > s);
    EXPECT(semctl(semaphores, 0, GETVAL) == (int)(rounds % 100) + 1);
    EXPECT(!semctl(semaphores, 0, SETVAL, (int)((rounds + 1) % 100) + 1));
}
