/* Delay each sync of a file by the milliseconds in SLOW_SYNC_MS, as a slow disk does. Loaded with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void delay(void) {
    const char *wanted = getenv("SLOW_SYNC_MS");
    long ms = wanted ? atol(wanted) : 0;
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&left, &left)) {
    }
}

int fsync(int file) {
    delay();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file) {
    delay();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}
