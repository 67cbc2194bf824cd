//! The screen of a terminal: keys and readings in, frames out.
//!
//! A thread reads the run, so that keys are obeyed while an answer is late. The terminal is restored at each end: a key,
//! a signal, an error, a panic (the hook of [`ratatui::try_init`]).

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal;

use super::reading::Reading;
use super::screen::draw;
use super::view::{Key, View};

/// The longest time until a signal, a reading or a window's new size is seen.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Reads the run's figures, or says why there are none.
pub type Look = Box<dyn FnMut() -> Result<Reading, String> + Send>;

/// Shows the readings until a key or `stops` ends it.
///
/// # Errors
/// When the terminal cannot be used.
pub fn show(mut view: View, look: Look, interval: Duration, stops: impl Fn() -> bool) -> io::Result<()> {
    let readings = read(look, interval)?;
    let restored = Restored;
    let mut screen = ratatui::try_init()?;
    let shown = loop {
        if let Err(error) = screen.draw(|frame| draw(&view, frame)) {
            break Err(error);
        }
        let is_pressed = match event::poll(WAIT_MAX) {
            Ok(is_pressed) => is_pressed,
            // A signal may interrupt the wait.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(error) => break Err(error),
        };
        if is_pressed {
            match event::read() {
                Ok(Event::Key(key)) if Key::of(key).is_some_and(|key| !view.press(key)) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        }
        match readings.try_recv() {
            Ok(reading) => view.take(reading),
            Err(TryRecvError::Empty) => {}
            // A panic ended it: its message is on the terminal, which the hook has restored.
            Err(TryRecvError::Disconnected) => break Err(io::Error::other("the reading thread has ended")),
        }
        if stops() {
            break Ok(());
        }
    };
    drop(restored);
    shown
}

/// Restores the terminal when it is dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // After a panic the hook has done so: a second time would move the cursor above the message.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

/// Starts the thread that reads. It ends with the receiver.
fn read(mut look: Look, interval: Duration) -> io::Result<Receiver<Result<Reading, String>>> {
    let (sender, readings) = sync_channel(1);
    let work = move || {
        loop {
            // The caller has the first reading: a second one at once would give rates of a moment.
            std::thread::sleep(interval);
            if sender.send(look()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("readings".to_owned()).spawn(work)?;
    Ok(readings)
}

/// The width of standard output if it is a terminal.
pub fn width_of_output() -> Option<usize> {
    let (width, _) = terminal::size().ok().filter(|_| io::stdout().is_terminal())?;
    Some(usize::from(width))
}
