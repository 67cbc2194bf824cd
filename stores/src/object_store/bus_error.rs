//! Bus errors: the signal that a thread gets when it reads a mapped page that the file no longer has.
//!
//! Another process has truncated the file (or its disk fails), and by default the signal ends the reader. This handler
//! replaces the lost pages by zeros, poisons the map and returns, so that the read continues. A reader of a [`Watched`]
//! map checks [`Watched::is_poisoned`] before it uses the bytes. Any other bus error goes to the handler installed
//! before, or to the system, which ends the process as without this handler.
//!
//! The handler takes no lock and allocates nothing. It looks for the address in a table of `MAPS_MAX` slots, which
//! other threads may be changing. A slot has a version, odd while it is written, and the handler skips a slot whose
//! version is odd or changes while its bounds are read. It cannot skip the faulting map's slot: the faulting thread is
//! reading that map, so the slot is not being changed. A slot is freed before its map is unmapped, so it never holds an
//! address of another, later map.
//!
//! The handler is installed while a map is watched: the first map installs it, and the last one restores the handler
//! before it.
//!
//! Systems other than Unix have no such signal. Windows does not allow truncation of a mapped file.

#[cfg(unix)]
pub(super) use unix::Watched;

#[cfg(unix)]
mod unix {
    #![expect(unsafe_code, reason = "a signal handler, and the pages that it puts in the place of lost ones")]

    use std::ffi::c_void;
    use std::io;
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering, fence};
    use std::sync::{Mutex, PoisonError};

    use libc::{c_int, siginfo_t};
    use memmap2::Mmap;

    /// The most maps watched at once, all of which the handler checks. A process has one map for each open store, or
    /// one for each large part of a changed store; a change opens such a store twice.
    pub(super) const MAPS_MAX: usize = 4096;
    const _: () = assert!(MAPS_MAX > 3 * (super::super::manifest::CHANGES_MAX + 1));

    static SLOTS: [Slot; MAPS_MAX] = [const { Slot::new() }; MAPS_MAX];
    /// Held while a slot is taken or given back; the handler never takes it.
    static TAKING: Mutex<Taken> = Mutex::new(Taken { count: 0, previous: None });
    /// The replaced handler and its flags; written before this one is installed.
    static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
    static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);
    static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

    /// Bookkeeping of the slots in use.
    struct Taken {
        count: usize,
        /// The replaced handler; `None` if this one is not installed.
        previous: Option<libc::sigaction>,
    }

    /// The addresses of one map; both 0 if the slot is free.
    struct Slot {
        version: AtomicUsize,
        start: AtomicUsize,
        end: AtomicUsize,
        poisoned: AtomicBool,
    }

    impl Slot {
        const fn new() -> Self {
            Self {
                version: AtomicUsize::new(0),
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                poisoned: AtomicBool::new(false),
            }
        }

        /// Changes the bounds; the caller holds `TAKING`.
        fn set(&self, start: usize, end: usize) {
            let version = self.version.load(Ordering::Relaxed);
            self.version.store(version.wrapping_add(1), Ordering::Relaxed);
            // A thread that sees a new bound also sees the odd version: pairs with the fence in `holds`.
            fence(Ordering::Release);
            debug_assert!(start <= end && version.is_multiple_of(2), "one thread at a time changes a slot");
            self.start.store(start, Ordering::Relaxed);
            self.end.store(end, Ordering::Relaxed);
            self.poisoned.store(false, Ordering::Relaxed);
            // Pairs with the first load in `holds`.
            self.version.store(version.wrapping_add(2), Ordering::Release);
        }

        /// The end of the map, if the address lies within it and the slot is not being changed.
        fn holds(&self, address: usize) -> Option<usize> {
            let version = self.version.load(Ordering::Acquire);
            let (start, end) = (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            let is_stable = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
            (is_stable && (start..end).contains(&address)).then_some(end)
        }
    }

    /// A map that survives the loss of its file's end.
    pub(in super::super) struct Watched {
        slot: &'static Slot,
        map: Mmap,
    }

    impl Watched {
        /// Watches a map.
        ///
        /// # Errors
        /// When `MAPS_MAX` maps are watched already, or the system refuses the handler.
        pub(in super::super) fn new(map: Mmap) -> io::Result<Self> {
            let mut taken = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = SLOTS.iter().find(|slot| slot.end.load(Ordering::Relaxed) == 0).ok_or_else(|| {
                io::Error::other(format!(
                    "{MAPS_MAX} files of stores are open, which is the limit: make one file of each store that was \
                     changed often (`boxwork compact`), or close some stores"
                ))
            })?;
            if taken.count == 0 {
                taken.previous = Some(install()?);
            }
            taken.count += 1;
            let start = map.as_ptr() as usize;
            slot.set(start, start + map.len());
            Ok(Self { slot, map })
        }

        /// The map.
        pub(in super::super) fn map(&self) -> &Mmap {
            &self.map
        }

        /// Whether zeros were read instead of lost bytes; once true, it stays so.
        pub(in super::super) fn is_poisoned(&self) -> bool {
            // Pairs with the store in `replace`, which precedes every read of zeros.
            self.slot.poisoned.load(Ordering::Acquire)
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            // The map is unmapped after this: no other map can have its addresses before the slot is free.
            let mut taken = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
            self.slot.set(0, 0);
            taken.count -= 1;
            if taken.count == 0
                && let Some(previous) = taken.previous.take()
            {
                remove(&previous);
            }
        }
    }

    fn address() -> libc::sighandler_t {
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_error;
        handler as libc::sighandler_t
    }

    /// The action of the signal at present.
    fn present() -> io::Result<libc::sigaction> {
        // SAFETY: zeros are a `sigaction`: no flag, no handler, no signal blocked.
        let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks for the present action; `present` is valid for the answer.
        match unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut present) } {
            0 => Ok(present),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Installs the handler, and returns the one that it replaces.
    fn install() -> io::Result<libc::sigaction> {
        // SAFETY: sysconf only reads.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE_BYTES.store(page_bytes.try_into().map_err(|_| io::Error::last_os_error())?, Ordering::Relaxed);
        let previous = present()?;
        // Set before the handler can run, which passes other signals to it.
        PREVIOUS_HANDLER.store(previous.sa_sigaction, Ordering::SeqCst);
        PREVIOUS_FLAGS.store(previous.sa_flags, Ordering::SeqCst);
        // SAFETY: zeros are a `sigaction`: no flag, no handler, no signal blocked.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = address();
        // On the alternate stack, if there is one: the previous handler may be the one that reports a stack overflow
        // and has no other stack to run on.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `action` is complete; the handler keeps to what a handler may do.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(previous)
    }

    /// Restores the replaced handler. A handler installed by another part of the program since then stays.
    fn remove(previous: &libc::sigaction) {
        if present().is_ok_and(|present| present.sa_sigaction == address()) {
            // SAFETY: `previous` is an action that the system gave.
            unsafe { libc::sigaction(libc::SIGBUS, previous, std::ptr::null_mut()) };
        }
    }

    /// Runs on the thread that read a lost page, between two of its instructions.
    extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the system passes a valid description to a handler that was installed with SA_SIGINFO.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
        // Only a signal that the system raised itself carries an address; one sent by `kill` has the sender's number.
        let is_fault = code > 0;
        if !(is_fault && SLOTS.iter().any(|slot| replace(slot, address))) {
            pass_on(signal, info, context, is_fault);
        }
    }

    /// Replaces a lost page and all pages behind it by zeros. Returns false if the address is not in this map.
    fn replace(slot: &Slot, address: usize) -> bool {
        let Some(end) = slot.holds(address) else { return false };
        // Before the zeros exist, so that no thread reads them and finds the map sound. Pairs with the load in
        // `is_poisoned`.
        slot.poisoned.store(true, Ordering::SeqCst);
        let page = address & !(PAGE_BYTES.load(Ordering::Relaxed).wrapping_sub(1));
        // mmap is a bare system call, and leaves `errno` alone when it succeeds. If it fails, the process ends.
        // SAFETY: the range lies in a map that the faulting thread keeps by reading it, and that is unmapped as a
        // whole. Its readers expect bytes that never move, not bytes that stay: `ObjectStore` explains how.
        let zeros = unsafe {
            libc::mmap(
                page as *mut c_void,
                end.wrapping_sub(page),
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        zeros != libc::MAP_FAILED
    }

    /// Acts as the process would without this handler.
    fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_fault: bool) {
        let previous = PREVIOUS_HANDLER.load(Ordering::SeqCst);
        match previous {
            libc::SIG_IGN if !is_fault => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // A read that faults is repeated after the return, and faults again under the restored action. A
                // signal that was sent must be sent again; it is delivered when this handler has returned.
                // SAFETY: zeros are a `sigaction`: no flag, no handler, no signal blocked.
                let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
                action.sa_sigaction = previous;
                // SAFETY: both calls are allowed in a handler; `action` is the default or to ignore the signal.
                unsafe {
                    libc::sigaction(signal, &raw const action, std::ptr::null_mut());
                    if !is_fault {
                        libc::raise(signal);
                    }
                }
            }
            handler if PREVIOUS_FLAGS.load(Ordering::SeqCst) & libc::SA_SIGINFO != 0 => {
                // SAFETY: the system gave it as a handler with three arguments.
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: the system gave it as a handler with one argument.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}

#[cfg(not(unix))]
pub(super) struct Watched {
    poisoned: std::sync::atomic::AtomicBool,
    map: memmap2::Mmap,
}

#[cfg(not(unix))]
impl Watched {
    pub(super) fn new(map: memmap2::Mmap) -> std::io::Result<Self> {
        Ok(Self { poisoned: false.into(), map })
    }

    pub(super) fn map(&self) -> &memmap2::Mmap {
        &self.map
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned.load(std::sync::atomic::Ordering::Acquire)
    }
}

#[cfg(all(test, unix))]
#[expect(unsafe_code, reason = "files are mapped, and signals are sent to a process that is the test's own")]
mod tests {
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    use memmap2::Mmap;

    use super::*;

    const CHILD: &str = "BOXWORK_TEST_CHILD";

    /// Runs a test of this file in a process of its own; returns nothing in that process.
    fn in_child(test: &str) -> Option<ExitStatus> {
        if std::env::var_os(CHILD).is_some() {
            // SAFETY: a limit of no bytes: the test crashes on purpose and must write no core dump.
            unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
            return None;
        }
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output =
            command.args(["--exact", &format!("{module}::{test}")]).env(CHILD, "1").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"), "{output:?}");
        Some(output.status)
    }

    fn file(bytes: u64) -> (File, Mmap) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        // SAFETY: the map is read by `read_volatile` alone.
        let map = unsafe { Mmap::map(&file) }.unwrap();
        (file, map)
    }

    fn read(map: &Mmap, place: usize) -> u8 {
        // SAFETY: within the map.
        unsafe { (&raw const map[place]).read_volatile() }
    }

    #[test]
    fn lost_pages_read_as_zeros_and_poison_their_own_map() {
        let (file_a, map_a) = file(1 << 16);
        let (_file_b, map_b) = file(1 << 16);
        let (a, b) = (Watched::new(map_a).unwrap(), Watched::new(map_b).unwrap());
        assert_eq!((read(a.map(), 40_000), a.is_poisoned()), (0, false));
        file_a.set_len(10).unwrap();
        assert_eq!((read(a.map(), 10), a.is_poisoned()), (0, false), "the rest of a page is zeros by itself");
        for place in [40_000, 65_535, 20_000, 40_001] {
            assert_eq!((read(a.map(), place), read(b.map(), place)), (0, 0));
        }
        assert!(a.is_poisoned() && !b.is_poisoned());
        drop(a);
        let (_file, map) = file(1 << 16);
        assert!(!Watched::new(map).unwrap().is_poisoned(), "the slot is clean for the next");
    }

    #[test]
    fn threads_lose_pages_while_others_come_and_go() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..200 {
                        let (file, map) = file(1 << 16);
                        let watched = Watched::new(map).unwrap();
                        if (thread + round) % 2 == 0 {
                            file.set_len(0).unwrap();
                        }
                        std::thread::scope(|readers| {
                            for place in [60_000, 5_000] {
                                let map = watched.map();
                                readers.spawn(move || assert_eq!(read(map, place), 0));
                            }
                        });
                        assert_eq!(watched.is_poisoned(), (thread + round) % 2 == 0);
                    }
                });
            }
        });
    }

    #[test]
    fn a_fault_in_another_map_kills_as_ever() {
        let Some(status) = in_child("a_fault_in_another_map_kills_as_ever") else {
            let (file_a, map_a) = file(1 << 16);
            let watched = Watched::new(map_a).unwrap();
            file_a.set_len(0).unwrap();
            assert_eq!(read(watched.map(), 9_000), 0);
            let (file_b, map_b) = file(1 << 16);
            file_b.set_len(0).unwrap();
            read(&map_b, 9_000);
            std::process::exit(0);
        };
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
    }

    #[test]
    fn a_signal_that_is_sent_kills_as_ever() {
        let Some(status) = in_child("a_signal_that_is_sent_kills_as_ever") else {
            let (_file, map) = file(1 << 16);
            let _watched = Watched::new(map).unwrap();
            // Rust's own handler, installed before, takes the first signal and uninstalls itself for the second.
            for _ in 0..2 {
                // SAFETY: a signal to this process, whose end is what is tested.
                unsafe { libc::raise(libc::SIGBUS) };
            }
            std::process::exit(0);
        };
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
    }

    #[test]
    fn the_handler_goes_with_the_last_map() {
        // In a process of its own, since other tests open stores.
        let Some(status) = in_child("the_handler_goes_with_the_last_map") else {
            let handler = || {
                // SAFETY: zeros are a `sigaction`: no flag, no handler, no signal blocked.
                let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
                // SAFETY: asks for the present action; `action` is valid for the answer.
                assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action) }, 0);
                action.sa_sigaction
            };
            let before = handler();
            for _ in 0..2 {
                let (a, b) = (Watched::new(file(4096).1).unwrap(), Watched::new(file(4096).1).unwrap());
                assert_ne!(handler(), before);
                drop(a);
                assert_ne!(handler(), before, "a map is left");
                drop(b);
                assert_eq!(handler(), before);
            }
            // A handler installed by another part of the program stays.
            let watched = Watched::new(file(4096).1).unwrap();
            // SAFETY: the signal is ignored; no handler runs.
            unsafe { libc::signal(libc::SIGBUS, libc::SIG_IGN) };
            drop(watched);
            assert_eq!(handler(), libc::SIG_IGN);
            return;
        };
        assert!(status.success(), "{status}");
    }

    #[test]
    fn more_maps_than_slots_are_refused_and_a_slot_is_taken_again() {
        // In a process of its own, since other tests open stores.
        let Some(status) = in_child("more_maps_than_slots_are_refused_and_a_slot_is_taken_again") else {
            let map = || memmap2::MmapMut::map_anon(1).unwrap().make_read_only().unwrap();
            let mut all: Vec<Watched> = (0..unix::MAPS_MAX).map(|_| Watched::new(map()).unwrap()).collect();
            assert!(Watched::new(map()).err().unwrap().to_string().contains("4096 files of stores are open"));
            all.swap_remove(7);
            all.push(Watched::new(map()).unwrap());
            assert!(Watched::new(map()).is_err());
            return;
        };
        assert!(status.success(), "{status}");
    }
}
