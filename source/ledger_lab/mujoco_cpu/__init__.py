"""Physics on all cores of a CPU: MuJoCo's own C code steps the worlds of a Newton scene.

Isaac Lab's Newton scene, assets, sensors and managers stay as they are. Only the solver's step is another: where
MuJoCo-Warp computes it in single precision on one thread, :class:`NativeSolver` calls ``mj_step`` of MuJoCo's C library
in double precision for each world, on a number of threads.
"""
