/* run/resident.c: inputs and outputs in the memory of the session's device. Slots of the boundary are the host's,
 * and Copy instructions stand between them and what the device computes. Where nothing but such a copy touches an
 * input or output, it may lie in the device's memory: the copy is then one within the device. */
#include "run/frame.h"

static bool is_transfer(const nc_instr *x) { return x->binding->kind == NC_K_STATIC && !x->binding->run; }

static bool reads(const nc_instr *x, int slot) {
    for (int j = 0; j < x->n_in; j++)
        if (x->in[j] == slot && !(j < 32 && x->dims_only >> j & 1)) return true;
    return false;
}

bool nc_frame_reads_on_device(const nc_frame *f, int i, const nc_object *o) {
    const nc_program *p = f->program;
    int slot = p->inputs[i];
    if (p->slots[slot].place != 0 || !nc_device_same_memory(o->buffer->device, p->device)) return false;
    for (int k = 0; k < p->n_instrs; k++)
        if (reads(&p->instrs[k], slot) && !(is_transfer(&p->instrs[k]) && p->instrs[k].place == 1)) return false;
    return true;
}

bool nc_frame_writes_on_device(const nc_frame *f, int i) {
    const nc_program *p = f->program;
    int slot = p->outputs[i];
    bool copied = false;
    if (p->slots[slot].storage != NC_S_OUTPUT || p->device->table->host_memory) return false;
    for (int k = 0; k < p->n_instrs; k++) {
        const nc_instr *x = &p->instrs[k];
        if (reads(x, slot)) return false;
        for (int o = 0; o < x->n_out; o++)
            if (x->out[o] == slot) copied = is_transfer(x) && x->place == 0;
    }
    return copied;
}

void nc_frame_output_on_device(nc_frame *f, int i) { f->slots[f->program->outputs[i]].on_device = true; }
