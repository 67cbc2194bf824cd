//! The page in a real browser over `boxwork serve`: rounds, keys, looks, faults, and what is in its files.
//!
//! A browser that is missing fails where `CI=true` or `BOXWORK_REQUIRE_BROWSER=1`; elsewhere each test says that it was
//! not run. `./x test` installs what is missing.

#[path = "support/command.rs"]
mod command;
#[path = "page/driver.rs"]
mod driver;
#[path = "page/browser.rs"]
mod browser;
#[path = "page/site.rs"]
mod site;
#[path = "page/proxy.rs"]
mod proxy;
#[path = "page/files.rs"]
mod files;
#[path = "page/rounds.rs"]
mod rounds;
#[path = "page/looks.rs"]
mod looks;
#[path = "page/faults.rs"]
mod faults;
