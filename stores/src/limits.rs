//! System limits of a process: the number of open files, and the size of a written file.
#![cfg_attr(unix, expect(unsafe_code, reason = "limits and signals are system calls"))]

/// Lets the process open as many files as the system allows: a store keeps one open for each of its large parts.
///
/// Raises only the soft limit to the hard one, which needs no privilege.
pub(crate) fn allow_many_files() {
    #[cfg(unix)]
    {
        // SAFETY: zeros are an `rlimit`.
        let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
        // SAFETY: `limit` is valid for the answer.
        let is_known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
        if is_known && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            // SAFETY: `limit` is complete. A system that refuses it leaves the limit as it is.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        }
    }
}

/// Makes a write beyond the limit of a file's size (`ulimit -f`) an error, as on a full disk. By default a signal ends
/// the process, and its temporary files stay.
///
/// This affects the whole process and its children: only a program's `main` should call it.
pub fn report_files_too_large() {
    #[cfg(unix)]
    // SAFETY: the signal is ignored; no handler runs.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
