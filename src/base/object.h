/* base/object.h: counted values that outlive a kernel: tensors over counted buffers, string tensors, sequences,
 * optionals, maps and tapes. They sit in a frame's slots and behind the public value handle, never in arena bytes.
 *
 * An object with one reference may be changed in place by who holds it: that is how a sequence grows in O(1). Shared
 * objects are never changed. Objects hold references to their items. Thread-safe counting, no other locking. */
#ifndef NC_BASE_OBJECT_H
#define NC_BASE_OBJECT_H

#include "base/buffer.h"
#include "base/shape.h"

typedef struct nc_str {
    char *p; /* NUL-terminated for convenience; may hold NUL inside */
    size_t n;
} nc_str;

typedef enum nc_object_kind { NC_OBJ_TENSOR, NC_OBJ_SEQUENCE, NC_OBJ_OPTIONAL, NC_OBJ_MAP, NC_OBJ_TAPE } nc_object_kind;

typedef struct nc_object {
    atomic_int refs;
    nc_object_kind kind;
    nc_tensor
        t; /* TENSOR. Strings: t.data is nc_str[numel], owned through buffer. Sequence: t.dtype is the element type */
    nc_buffer *buffer;        /* TENSOR: keeps t.data alive */
    struct nc_object **items; /* SEQUENCE, TAPE: n items. OPTIONAL: 0 or 1. MAP: keys tensor, values */
    int64_t n, cap;
} nc_object;

nc_object *nc_object_tensor(nc_buffer *takes, nc_dtype t, int rank,
                            const int64_t *dims); /* dense, at the buffer's start;
                                          the buffer is unref'd also on failure; takes may be NULL on input failure */
nc_object *nc_object_host_tensor(nc_dtype t, int rank,
                                 const int64_t *dims); /* new dense host tensor; strings: all empty */
nc_object *nc_object_strings(int rank, const int64_t *dims, const nc_str *copies); /* dense string tensor */
nc_object *nc_object_list(nc_object_kind kind, nc_dtype elem); /* an empty sequence, optional, map or tape */
nc_object *nc_object_ref(nc_object *o);
bool nc_object_on_device(const nc_object *o);           /* a tensor whose bytes the host cannot read */
void nc_object_unref(nc_object *o);                     /* NULL is fine */
bool nc_object_push(nc_object *list, nc_object *takes); /* amortised O(1); false: out of memory, the item is unref'd */
nc_object *nc_object_pop(nc_object *list);              /* gives the last item away; NULL when empty */
/* The list itself when the caller holds the only reference, else a copy that shares the items. Takes list; NULL: out of
 * memory. */
nc_object *nc_object_own(nc_object *takes);

#endif
