// Steps all worlds with MuJoCo's C code, on several threads. This is the body of a function: Warp's compiler puts it
// into a kernel (see step.py), so it names no header, and its types are local. `job` is the address of a Job; step.py
// reads its members from this file. `read` tells whether Newton reads all results of this step, or the next step only.

typedef long long i64;
typedef unsigned u32;
typedef signed i32;  // Warp makes a macro of the usual name

struct Rows {         // one array of all worlds in single precision, and its place in the data or model of a thread
    float* rows;      // of world 0
    i64 stride;       // floats from one world to the next
    i64 count;        // numbers of a world
    const float* at_first;  // for a model: values that the model was compiled with, and what MuJoCo made of them
    const double* compiled;
    i64 copied;       // whether it is copied before each step
};

struct Thread {
    const void* model;  // its own mjModel and mjData
    void* data;
    double** fields;    // places in the model, one for each of Job::fields
    double** inputs;    // places in the data
    double** outputs;
    unsigned char* active;  // which equality constraints act
    void* resume[5];    // where to go on after an error in MuJoCo
};

struct Job {
    void (*step)(const void*, void*);
    void (*reset_data)(const void*, void*);
    void (*check_position)(const void*, void*);
    void (*check_velocity)(const void*, void*);
    void (*forward)(const void*, void*);
    void (*check_acceleration)(const void*, void*);
    void (*post_constraint)(const void*, void*);
    void (*integrate)(const void*, void*, i32);  // mj_RungeKutta takes a number of stages, the others ignore it
    void* (*set_log_handler)(void*);
    void (*run)(void*, void (*)(void*, i64), void*);  // of the pool, see threads.cpp
    void* pool;
    void* (*get_specific)(u32);
    i32 (*set_specific)(u32, const void*);
    i64 key;
    i64 worlds, threads, block;
    i64 next;  // first world that no thread has taken yet
    i64 next_ordered;  // the same for order_contacts
    i64 want_post_constraint;
    Thread* thread;
    Rows* fields; i64 n_fields;
    Rows* inputs; i64 n_inputs;
    Rows* outputs; i64 n_outputs, n_state;  // the first are the state
    i64 read;
    const unsigned char* active; i64 n_active;  // an input too: which equality constraints of each world act
    Rows* held; i64 n_held;  // inputs that are zero after a world has become unstable: velocities, warm start
    i32* status;             // of each world: bits of mjtWarning, ERROR, UNSEEN
    i64 unusable;            // bits of a status that mean that the result of a step cannot be used
    // where mjData and mjContact keep their members, in bytes
    i64 at_warning, warnings, at_ncon, at_nefc, at_contact, at_efc_force;
    i64 contact_size, at_dist, at_pos, at_frame, at_friction, at_dim, at_geom, at_efc_address;
    // contacts and forces of the constraints, as MuJoCo-Warp reports them
    i32* nefc;
    float* efc_force; i64 efc_stride, njmax;
    float* found; i64 found_per_world;  // contacts of each world, before they are put in the order of the worlds
    i32* ncon;  // as many as MuJoCo found, also if there was no room for all
    i32* place;  // of the first contact of each world in the order of the worlds
    i32* nacon; i64 naconmax;
    i32* ncollision;
    float *dist, *pos, *frame, *friction;
    i32 *dim, *geom, *efc_address, *world; i64 efc_address_stride;
};

struct Step {
    enum { ERROR = 1 << 30, UNSEEN = 1 << 29, NUMBERS = 22 };  // NUMBERS: of a found contact

    static Job*& current() { static Job* job = 0; return job; }

    // Called by MuJoCo on the thread that meets an error or a warning. Warnings are counted in mjData.
    static void on_message(const void* message) {
        const i32 level = *(const i32*)message;
        if (level < 3) return;  // mjLOG_ERROR
        Job& j = *current();
        Thread* t = (Thread*)j.get_specific((u32)j.key);
        __builtin_longjmp(t->resume, 1);
    }

    static void set_fields(Job& j, Thread& t, i64 world) {
        for (i64 f = 0; f < j.n_fields; ++f) {
            const Rows& r = j.fields[f];
            if (!r.copied) continue;
            const float* __restrict from = r.rows + world * r.stride;
            const float* __restrict at_first = r.at_first;
            const double* __restrict compiled = r.compiled;
            double* __restrict to = t.fields[f];
            for (i64 i = 0, n = r.count; i < n; ++i) to[i] = from[i] == at_first[i] ? compiled[i] : (double)from[i];
        }
    }

    static void set_inputs(Job& j, Thread& t, i64 world) {
        for (i64 k = 0; k < j.n_inputs; ++k) {
            const Rows& r = j.inputs[k];
            const float* __restrict from = r.rows + world * r.stride;
            double* __restrict to = t.inputs[k];
            for (i64 i = 0, n = r.count; i < n; ++i) to[i] = (double)from[i];
        }
        for (i64 i = 0; i < j.n_active; ++i) t.active[i] = j.active[world * j.n_active + i];
        i32* warning = (i32*)((char*)t.data + j.at_warning);  // pairs: last information, number
        for (i64 i = 0; i < j.warnings; ++i) warning[2 * i + 1] = 0;
    }

    // Returns bits of a status.
    static i32 try_step(Job& j, Thread& t) {
        if (__builtin_setjmp(t.resume)) {
            j.reset_data(t.model, t.data);  // the stack in mjData is as the error left it
            return ERROR;
        }
        if (j.want_post_constraint) {  // what mj_step does, with the forces between bodies before the velocities change
            j.check_position(t.model, t.data);
            j.check_velocity(t.model, t.data);
            j.forward(t.model, t.data);
            j.check_acceleration(t.model, t.data);
            j.post_constraint(t.model, t.data);
            j.integrate(t.model, t.data, 4);
        } else {
            j.step(t.model, t.data);
        }
        const i32* warning = (const i32*)((char*)t.data + j.at_warning);
        i32 status = 0;
        for (i64 i = 0; i < j.warnings; ++i) status |= (warning[2 * i + 1] > 0) << i;
        return status;
    }

    static void get_outputs(Job& j, Thread& t, i64 world) {
        for (i64 k = 0; k < (j.read ? j.n_outputs : j.n_state); ++k) {
            const Rows& r = j.outputs[k];
            float* __restrict to = r.rows + world * r.stride;
            const double* __restrict from = t.outputs[k];
            for (i64 i = 0, n = r.count; i < n; ++i) to[i] = (float)from[i];
        }
    }

    // Keep the world where it was, without velocity, until its episode ends.
    static void hold(Job& j, i64 world) {
        for (i64 k = 0; k < j.n_held; ++k) {
            const Rows& r = j.held[k];
            float* to = r.rows + world * r.stride;
            for (i64 i = 0; i < r.count; ++i) to[i] = 0.0f;
        }
        j.ncon[world] = j.nefc[world] = 0;
    }

    // Returns UNSEEN if there was no room for all contacts or forces.
    static i32 get_contacts(Job& j, Thread& t, i64 world) {
        char* data = (char*)t.data;
        i32 ncon = *(i32*)(data + j.at_ncon), nefc = *(i32*)(data + j.at_nefc), status = 0;
        const char* contact = *(const char**)(data + j.at_contact);
        const double* force = *(const double**)(data + j.at_efc_force);
        j.nefc[world] = nefc;
        j.ncon[world] = ncon;
        if (nefc > j.njmax || ncon > j.found_per_world) status = UNSEEN;
        if (!j.read) return status;
        if (nefc > j.njmax) nefc = (i32)j.njmax;
        float* forces = j.efc_force + world * j.efc_stride;
        for (i64 i = 0; i < nefc; ++i) forces[i] = (float)force[i];
        if (ncon > j.found_per_world) ncon = (i32)j.found_per_world;
        float* found = j.found + world * j.found_per_world * NUMBERS;
        for (i64 c = 0; c < ncon; ++c, contact += j.contact_size, found += NUMBERS) {
            const double* pos = (const double*)(contact + j.at_pos);
            const double* frame = (const double*)(contact + j.at_frame);
            const double* friction = (const double*)(contact + j.at_friction);
            const i32* geom = (const i32*)(contact + j.at_geom);
            found[0] = (float)*(const double*)(contact + j.at_dist);
            for (i64 i = 0; i < 3; ++i) found[1 + i] = (float)pos[i];
            for (i64 i = 0; i < 9; ++i) found[4 + i] = (float)frame[i];
            for (i64 i = 0; i < 5; ++i) found[13 + i] = (float)friction[i];
            i32* whole = (i32*)(found + 18);
            whole[0] = *(const i32*)(contact + j.at_dim);
            whole[1] = geom[0];
            whole[2] = geom[1];
            i32 address = *(const i32*)(contact + j.at_efc_address);
            whole[3] = address < j.njmax ? address : -1;
        }
        return status;
    }

    // Step some worlds.
    static void work(void*, i64 thread) {
        Job& j = *current();
        if (thread >= j.threads) return;
        Thread& t = j.thread[thread];
        j.set_specific((u32)j.key, &t);
        void* handler = j.set_log_handler((void*)&on_message);
        for (;;) {
            const i64 first = __atomic_fetch_add(&j.next, j.block, __ATOMIC_RELAXED);
            if (first >= j.worlds) break;
            const i64 end = first + j.block < j.worlds ? first + j.block : j.worlds;
            for (i64 world = first; world < end; ++world) {
                set_fields(j, t, world);
                set_inputs(j, t, world);
                i32 status = try_step(j, t);
                if (status & j.unusable) {
                    status |= ERROR;
                    hold(j, world);
                } else {
                    get_outputs(j, t, world);
                    status |= get_contacts(j, t, world);
                }
                j.status[world] |= status;
            }
        }
        j.set_log_handler(handler);
    }

    // Where the contacts of each world go in one array, in the order of the worlds, whatever thread found them.
    static void place_contacts(Job& j) {
        i64 n = 0, needed = 0;
        for (i64 world = 0; world < j.worlds; ++world) {
            j.place[world] = (i32)n;
            needed += j.ncon[world];
            n += j.ncon[world] < j.found_per_world ? j.ncon[world] : j.found_per_world;
            if (n > j.naconmax) j.status[world] |= UNSEEN;
        }
        j.nacon[0] = (i32)(n < j.naconmax ? n : j.naconmax);
        j.ncollision[0] = (i32)needed;
    }

    // Put the contacts of some worlds there.
    static void order_contacts(void*, i64) {
        Job& j = *current();
        for (;;) {
            const i64 first = __atomic_fetch_add(&j.next_ordered, 64, __ATOMIC_RELAXED);
            if (first >= j.worlds) break;
            const i64 end = first + 64 < j.worlds ? first + 64 : j.worlds;
            for (i64 world = first; world < end; ++world) order_contacts_of(j, world);
        }
    }

    static void order_contacts_of(Job& j, i64 world) {
        const float* found = j.found + world * j.found_per_world * NUMBERS;
        const i64 kept = j.ncon[world] < j.found_per_world ? j.ncon[world] : j.found_per_world;
        i64 n = j.place[world];
        for (i64 c = 0; c < kept; ++c, ++n, found += NUMBERS) {
            if (n >= j.naconmax) return;
            const i32* whole = (const i32*)(found + 18);
            j.dist[n] = found[0];
            for (i64 i = 0; i < 3; ++i) j.pos[3 * n + i] = found[1 + i];
            for (i64 i = 0; i < 9; ++i) j.frame[9 * n + i] = found[4 + i];
            for (i64 i = 0; i < 5; ++i) j.friction[5 * n + i] = found[13 + i];
            j.dim[n] = whole[0];
            j.geom[2 * n] = whole[1];
            j.geom[2 * n + 1] = whole[2];
            for (i64 i = 0; i < j.efc_address_stride; ++i)
                j.efc_address[j.efc_address_stride * n + i] = whole[3] < 0 ? -1 : whole[3] + (i32)i;
            j.world[n] = (i32)world;
        }
    }
};

Job& j = *(Job*)job;
Step::current() = &j;
j.next = j.next_ordered = 0;
j.read = read;
j.run(j.pool, &Step::work, 0);
Step::place_contacts(j);
if (read) j.run(j.pool, &Step::order_contacts, 0);
