//! The server's own figures, in Prometheus' text format.
//!
//! Invariant: the labels are routes and statuses of the program, never texts of a client, so the page stays small.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// The media type of the text exposition format.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the latency histogram's buckets, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Counts of one route.
#[derive(Clone, Debug, Default)]
struct Route {
    statuses: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    seconds: f64,
    count: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub struct Figures {
    routes: Mutex<BTreeMap<&'static str, Route>>,
    /// Requests under way.
    pub in_flight: AtomicU64,
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections that were refused because there were too many.
    pub refused_connections: AtomicU64,
}

/// A sample of the page, without labels: name, kind, help, value.
pub type Single<'a> = (&'a str, &'a str, &'a str, u64);

impl Figures {
    /// Counts an answer.
    pub fn count(&self, route: &'static str, status: u16, latency: Duration) {
        let seconds = latency.as_secs_f64();
        let mut routes = self.routes.lock();
        let route = routes.entry(route).or_default();
        *route.statuses.entry(status).or_default() += 1;
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            route.buckets[bucket] += 1;
        }
        route.seconds += seconds;
        route.count += 1;
    }

    /// The page, with further samples.
    pub fn page(&self, more: &[Single<'_>]) -> String {
        let routes = self.routes.lock().clone();
        let mut page = String::new();
        let family = |page: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        let name = "boxwork_http_requests_total";
        family(&mut page, name, "counter", "Requests that were answered, by route and status.");
        for (route, counts) in &routes {
            for (status, count) in &counts.statuses {
                let _ = writeln!(page, "{name}{{route=\"{route}\",status=\"{status}\"}} {count}");
            }
        }
        let name = "boxwork_http_request_seconds";
        family(&mut page, name, "histogram", "Time from a request's head to its answer.");
        for (route, counts) in &routes {
            let mut below = 0;
            for (bound, count) in BUCKETS.iter().zip(counts.buckets) {
                below += count;
                let _ = writeln!(page, "{name}_bucket{{route=\"{route}\",le=\"{bound}\"}} {below}");
            }
            let Route { seconds, count, .. } = counts;
            let _ = writeln!(page, "{name}_bucket{{route=\"{route}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(page, "{name}_sum{{route=\"{route}\"}} {seconds}");
            let _ = writeln!(page, "{name}_count{{route=\"{route}\"}} {count}");
        }
        let of = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let own: [Single<'_>; 3] = [
            ("boxwork_http_in_flight", "gauge", "Requests under way.", of(&self.in_flight)),
            ("boxwork_http_connections", "gauge", "Connections that are open.", of(&self.connections)),
            (
                "boxwork_http_refused_connections_total",
                "counter",
                "Connections beyond the limit.",
                of(&self.refused_connections),
            ),
        ];
        for (name, kind, help, value) in own.iter().chain(more) {
            family(&mut page, name, kind, help);
            let _ = writeln!(page, "{name} {value}");
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_each_answer_once() {
        let figures = Figures::default();
        for millis in [1, 2, 40, 60_000] {
            figures.count("/v1/stores", 200, Duration::from_millis(millis));
        }
        figures.count("/v1/stores", 503, Duration::ZERO);
        let page = figures.page(&[("boxwork_sessions", "gauge", "Sessions.", 3)]);
        for line in [
            "boxwork_http_requests_total{route=\"/v1/stores\",status=\"200\"} 4",
            "boxwork_http_request_seconds_bucket{route=\"/v1/stores\",le=\"0.001\"} 2",
            "boxwork_http_request_seconds_bucket{route=\"/v1/stores\",le=\"10\"} 4",
            "boxwork_http_request_seconds_bucket{route=\"/v1/stores\",le=\"+Inf\"} 5",
            "boxwork_sessions 3",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in {page}");
        }
    }
}
