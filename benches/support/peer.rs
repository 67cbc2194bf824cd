//! The other side of a comparison: a script in its own process that answers line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// Part of the binary, so that it can be copied to another machine alone.
const OPENCV: &str = include_str!("../peers/opencv.py");
const FAISS: &str = include_str!("../peers/faiss_vectors.py");
const RAPIDFUZZ: &str = include_str!("../peers/rapidfuzz_edit.py");
const NUMPY: &str = include_str!("../peers/numpy_permutation.py");
const BM3D: &str = include_str!("../peers/bm3d_denoise.py");
const REGRESSION: &str = include_str!("../peers/gp_peers.py");
const LAPACK: &str = include_str!("../peers/lapack.py");
const TORCH: &str = include_str!("../peers/torch_vectors.py");
const TORCH_DENSE: &str = include_str!("../peers/torch_dense.py");
const CLBLAST: &str = include_str!("../peers/clblast_dense.py");

/// A peer that waits for questions.
pub struct Peer {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The peer's name for itself.
    pub name: String,
}

impl Peer {
    /// Starts OpenCV with these arguments; if it is missing, prints what to install.
    pub fn opencv(arguments: &[&str]) -> Option<Self> {
        let what = ["OpenCV with the contributed modules", "opencv-contrib-python-headless"];
        Self::python(OPENCV, what, arguments, "1")
    }

    /// Starts Faiss with these arguments, on so many threads; if it is missing, prints what to install.
    pub fn faiss(arguments: &[&str], threads: &str) -> Option<Self> {
        Self::python(FAISS, ["Faiss with NumPy", "faiss-cpu"], arguments, threads)
    }

    /// Starts PyTorch with these arguments; if it or its GPU is missing, prints what to install.
    pub fn torch(arguments: &[&str]) -> Option<Self> {
        Self::python(TORCH, ["PyTorch with a GPU", "torch"], arguments, "1")
    }

    /// Starts PyTorch for products and factors of matrices; if it or its GPU is missing, prints what to install.
    pub fn torch_dense(arguments: &[&str]) -> Option<Self> {
        Self::python(TORCH_DENSE, ["PyTorch with a GPU", "torch"], arguments, "1")
    }

    /// Starts CLBlast on the device of a name, for products of matrices; if it is missing, prints what to install.
    pub fn clblast(device: &str) -> Option<Self> {
        Self::python(CLBLAST, ["CLBlast", "no package, but the system's libclblast1"], &[device], "1")
    }

    /// Starts RapidFuzz with these arguments; if it is missing, prints what to install.
    pub fn rapidfuzz(arguments: &[&str]) -> Option<Self> {
        Self::python(RAPIDFUZZ, ["RapidFuzz with NumPy", "rapidfuzz numpy"], arguments, "1")
    }

    /// Starts NumPy for permutations with these arguments; if it is missing, prints what to install.
    pub fn numpy(arguments: &[&str]) -> Option<Self> {
        Self::python(NUMPY, ["NumPy", "numpy"], arguments, "1")
    }

    /// Starts the package bm3d with these arguments; if it is missing, prints what to install.
    pub fn bm3d(arguments: &[&str]) -> Option<Self> {
        Self::python(BM3D, ["bm3d with NumPy", "bm3d"], arguments, "1")
    }

    /// Starts scikit-learn or george with these arguments; if it is missing, prints what to install.
    pub fn regression(package: &str, arguments: &[&str]) -> Option<Self> {
        let what = if package == "george" { ["george", "george"] } else { ["scikit-learn", "scikit-learn"] };
        Self::python(REGRESSION, what, arguments, "1")
    }

    /// Starts LAPACK on so many threads, of OpenBLAS or of MKL; if it is missing, prints what to install.
    pub fn lapack(library: &str, threads: &str) -> Option<Self> {
        let what = match library {
            "openblas" => ["SciPy", "scipy"],
            "mkl" => ["PyTorch with MKL", "torch"],
            other => panic!("peers={other}: give openblas, mkl or both"),
        };
        Self::python(LAPACK, what, &[library, threads], threads)
    }

    /// Starts a program that was built from a text beside the benches; if it is missing, prints so.
    pub fn program(path: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(path);
        match command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Ok(child) => Self::named(child, path),
            Err(error) => {
                println!(
                    "peer        NOT MEASURED: {path} ({error}); its text in benches/peers says how to build it"
                );
                None
            }
        }
    }

    /// A peer that says its name, or what is missing.
    fn named(child: Child, what: &str) -> Option<Self> {
        let mut peer = Self::of(child);
        let first = peer.answer();
        if first["missing"].is_string() {
            println!(
                "peer        NOT MEASURED: {what} ({})",
                first["why"].as_str().unwrap_or("no reason given")
            );
            return None;
        }
        peer.name = first["name"].as_str().unwrap_or(what).to_owned();
        println!("peer        {}, in a process of its own ({what})", peer.name);
        Some(peer)
    }

    /// Starts a script in Python, with the name of what it needs and the package that has it.
    fn python(script: &str, [what, package]: [&str; 2], arguments: &[&str], threads: &str) -> Option<Self> {
        let python = std::env::var("BOXWORK_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let missing = |why: &str| {
            println!("peer        NOT MEASURED: {python} has no {what} ({why})");
            println!("            pip install {package}, or name another Python in BOXWORK_PYTHON");
        };
        let mut command = Command::new(&python);
        command.arg("-c").arg(script).args(arguments).env("OMP_NUM_THREADS", threads);
        let mut peer = match command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Ok(child) => Self::of(child),
            Err(error) => {
                missing(&error.to_string());
                return None;
            }
        };
        let first = peer.answer();
        if first["missing"].is_string() {
            missing(first["why"].as_str().unwrap_or("no reason given"));
            return None;
        }
        peer.name = first["name"].as_str().unwrap_or(what).to_owned();
        println!("peer        {}, threads: {threads}, in a process of its own ({python})", peer.name);
        Some(peer)
    }

    /// A process whose input and output are pipes.
    fn of(mut child: Child) -> Self {
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Self { child, questions, answers, name: String::new() }
    }

    /// Sends a question, and waits for the answer.
    pub fn ask(&mut self, question: &str) -> Value {
        let questions = self.questions.as_mut().expect("the pipe is open until the drop");
        writeln!(questions, "{question}").and_then(|()| questions.flush()).expect("the peer reads");
        self.answer()
    }

    /// Asks for a measurement and returns the seconds of one unit.
    pub fn seconds(&mut self, question: &str) -> f64 {
        let answer = self.ask(question);
        let figure = |name: &str| answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"));
        figure("seconds") / figure("count")
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the peer writes");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("the peer answered `{line}`: {error}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer ends when its input is closed.
        self.questions = None;
        let _ = self.child.wait();
    }
}
