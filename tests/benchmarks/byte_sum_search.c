/*
 * Searches the shortest program that adds four pairs of bytes in two words.
 *
 *     gcc -O3 tests/benchmarks/byte_sum_search.c -o search && ./search 5
 *
 * The operations are add, sub, and, or, xor, and shifts by 1, 7 and 8. The masks are free, because
 * registers hold them during a loop. The program prints the number of sequences that are right.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ADD, SUB, AND, OR, XOR, SHIFTS, MASKS = 6, FIRST = 2 + MASKS, TESTS = 4, LONGEST = 8 };

static const uint32_t masks[MASKS] = {
    0x7f7f7f7fu, 0x80808080u, 0x01010101u, 0x00ff00ffu, 0xff00ff00u, 0x01010100u,
};
static const int shifts[] = {1, -1, 7, -7, 8, -8};

typedef struct { int operation, first, second; } step;
typedef struct { uint32_t of[TESTS]; } value;

static step steps[LONGEST];
static value values[FIRST + LONGEST], wanted;
static long found;

static uint32_t draw(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static uint32_t add_bytes(uint32_t a, uint32_t b)
{
    return ((a & masks[0]) + (b & masks[0])) ^ ((a ^ b) & masks[1]);
}

static uint32_t apply(int operation, uint32_t x, uint32_t y)
{
    switch (operation) {
    case ADD: return x + y;
    case SUB: return x - y;
    case AND: return x & y;
    case OR: return x | y;
    case XOR: return x ^ y;
    default: break;
    }
    const int by = shifts[operation - SHIFTS];
    return by > 0 ? x << by : x >> -by;
}

/* Many carries go through several bytes: these sums need the most tests. */
static bool is_right(int count)
{
    for (int test = 0; test < 100000; ++test) {
        uint32_t words[FIRST + LONGEST] = {draw(), draw()};
        if (test % 2 != 0) {
            words[1] = ~words[0] + (draw() & masks[2]);
        }
        for (int i = 0; i < MASKS; ++i) {
            words[2 + i] = masks[i];
        }
        for (int i = 0; i < count; ++i) {
            const step s = steps[i];
            words[FIRST + i] = apply(s.operation, words[s.first], words[s.second]);
        }
        if (words[FIRST + count - 1] != add_bytes(words[0], words[1])) {
            return false;
        }
    }
    return true;
}

static bool equals(const value *x, const value *y)
{
    for (int i = 0; i < TESTS; ++i) {
        if (x->of[i] != y->of[i]) {
            return false;
        }
    }
    return true;
}

/* Try each last step. It reads the newest value, because the steps before would otherwise be idle. */
static void finish(int length)
{
    const int newest = FIRST + length - 2;
    const uint32_t x = values[newest].of[0], result = wanted.of[0];
    for (int other = 0; other <= newest; ++other) {
        const uint32_t y = values[other].of[0];
        const step candidates[] = {
            {ADD, newest, other}, {SUB, newest, other}, {SUB, other, newest},
            {AND, newest, other}, {OR, newest, other}, {XOR, newest, other},
        };
        const bool hits[] = {
            x + y == result, x - y == result, y - x == result,
            (x & y) == result, (x | y) == result, (x ^ y) == result,
        };
        for (int i = 0; i < 6; ++i) {
            if (hits[i]) {
                steps[length - 1] = candidates[i];
                found += is_right(length);
            }
        }
    }
    for (int i = 0; i < 6; ++i) {
        if (apply(SHIFTS + i, x, 0) == result) {
            steps[length - 1] = (step){SHIFTS + i, newest, 0};
            found += is_right(length);
        }
    }
}

/* Try each step after `done` steps. Independent steps have one order, by the key. */
static void search(int done, int length, int before)
{
    const int known = FIRST + done;
    if (done == length - 1) {
        finish(length);
        return;
    }
    for (int first = 0; first < known; ++first) {
        for (int second = 0; second < known; ++second) {
            for (int operation = 0; operation < SHIFTS + 6; ++operation) {
                const bool shift = operation >= SHIFTS;
                if (shift ? second != 0 : operation != SUB && second <= first) {
                    continue;
                }
                const int key = (first * 32 + second) * 16 + operation;
                const bool newest = first == known - 1 || (!shift && second == known - 1);
                if (done > 0 && !newest && key <= before) {
                    continue;
                }
                value *const made = &values[known];
                for (int i = 0; i < TESTS; ++i) {
                    made->of[i] = apply(operation, values[first].of[i], values[second].of[i]);
                }
                bool repeated = false;
                for (int i = 0; i < known && !repeated; ++i) {
                    repeated = equals(made, &values[i]);
                }
                if (!repeated) {
                    steps[done] = (step){operation, first, second};
                    search(done + 1, length, key);
                }
            }
        }
    }
}

int main(int count, char **arguments)
{
    const int length = count == 2 ? atoi(arguments[1]) : 0;
    if (length < 2 || length > LONGEST) {
        return 2;
    }
    for (int i = 0; i < TESTS; ++i) {
        values[0].of[i] = draw(), values[1].of[i] = draw();
        wanted.of[i] = add_bytes(values[0].of[i], values[1].of[i]);
        for (int j = 0; j < MASKS; ++j) {
            values[2 + j].of[i] = masks[j];
        }
    }
    search(0, length, -1);
    printf("%d operations: %ld programs\n", length, found);
    return 0;
}
